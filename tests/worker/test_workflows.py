"""Workflows from end to end: a worker coordinates them and runs their nodes."""

from datetime import timedelta

import pytest

from headgate import Envelope, Headgate, Skip, Store, Workflow
from tests.store.rows import Observer, state_of
from tests.worker.conftest import StartWorker
from tests.worker.waiting import reaches


@pytest.fixture
def app(store: Store) -> Headgate:
    app = Headgate(workflows=True)
    app.bind(store)
    return app


async def test_a_fan_out_and_a_fan_in_run_in_order(
    app: Headgate, observer: Observer, start_worker: StartWorker
) -> None:
    ran: list[str] = []

    @app.task("step")
    async def step(name: str) -> None:
        ran.append(name)

    workflow = Workflow("w", poll_interval=timedelta(milliseconds=20))
    first = workflow.add(step.job("first"), name="first")
    parts = [workflow.add(step.job(n), name=n, after=first) for n in ("left", "middle", "right")]
    workflow.add(step.job("last"), name="last", after=parts)
    enqueued = await app.enqueue_workflow(workflow)
    assert enqueued[0].id == "w:coordinator"
    start_worker(queues=app.queues, duties=True)
    await reaches(observer, "w:coordinator", "completed")
    assert (ran[0], sorted(ran[1:4]), ran[4:]) == ("first", ["left", "middle", "right"], ["last"])


async def test_what_follows_does_not_wait_for_the_coordinator_to_look(
    app: Headgate, observer: Observer, start_worker: StartWorker
) -> None:
    @app.task("step")
    async def step() -> None: ...

    workflow = Workflow("w", poll_interval=timedelta(hours=1))
    for name, after in (("a", ()), ("b", ("a",)), ("c", ("b",))):
        workflow.add(step.job(), name=name, after=after)
    await app.enqueue_workflow(workflow)
    start_worker(queues=app.queues, duties=True)
    await reaches(observer, "w:c", "completed")
    await reaches(observer, "w:coordinator", "completed")


async def test_a_failed_part_is_retried_without_the_rest(
    app: Headgate, store: Store, observer: Observer, start_worker: StartWorker
) -> None:
    ran: list[str] = []
    broken = True

    @app.task("step")
    async def step(name: str) -> None:
        ran.append(name)
        if name == "bad" and broken:
            raise Skip("out of order")

    workflow = Workflow("w", poll_interval_ms=20)
    workflow.add(step.job("good"), name="good")
    workflow.add(step.job("bad"), name="bad")
    workflow.add(step.job("after"), name="after", after=["good", "bad"])
    await app.enqueue_workflow(workflow)
    start_worker(queues=app.queues, duties=True)
    await reaches(observer, "w:coordinator", "archived")
    assert sorted(ran) == ["bad", "good"]
    job = await store.inspection.job("w:coordinator")
    assert job is not None
    assert job.errors[-1]["error"] == "failed: bad"

    broken = False
    await store.workflows.retry("w", expected_revision=1)
    await reaches(observer, "w:coordinator", "completed")
    assert ran[2:] == ["bad", "after"]


async def test_a_plan_that_is_none_is_not_tried_again(
    app: Headgate, store: Store, observer: Observer, start_worker: StartWorker
) -> None:
    circle = (
        b'{"workflow_id":"w","nodes":[{"name":"a","job_id":"1","deps":["b"]},'
        b'{"name":"b","job_id":"2","deps":["a"]}]}'
    )
    for job_id, payload in (("circle", circle), ("nothing", b"[]")):
        await store.producer.enqueue(
            [
                Envelope(
                    id=job_id, kind="headgate:workflow", queue="headgate-workflow", payload=payload
                )
            ]
        )
    start_worker(queues=app.queues)
    await reaches(observer, "circle", "archived")
    await reaches(observer, "nothing", "undecodable")
    assert await state_of(observer, "circle") == "archived"
