"""Putting a workflow together: what is enqueued, and what is refused."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from headgate import Envelope, Headgate, InvalidRequest, RegistrationError, Workflow
from headgate.client.workflow import MAX_NODES


def job(kind: str = "step", **fields: Any) -> Envelope:
    return Envelope(kind=kind, **fields)


def test_the_coordinator_comes_first_and_its_nodes_in_order() -> None:
    workflow = Workflow("w", retention=timedelta(hours=1))
    workflow.add(job("load", retention_ms=5), after=["extract"])
    extract = workflow.add(job("extract", id="mine"))
    workflow.add(job("report"), name="tell", after=(extract, "load"))
    coordinator, *nodes = workflow.jobs()
    assert (coordinator.id, coordinator.kind) == ("w:coordinator", "headgate:workflow")
    assert (coordinator.queue, coordinator.retention_ms) == ("headgate-workflow", 3_600_000)
    assert not coordinator.pending
    assert msgspec.json.decode(coordinator.payload) == {
        "workflow_id": "w",
        "nodes": [
            {"name": "extract", "job_id": "mine", "deps": []},
            {"name": "load", "job_id": "w:load", "deps": ["extract"]},
            {"name": "tell", "job_id": "w:tell", "deps": ["extract", "load"]},
        ],
    }
    assert [(each.id, each.retention_ms) for each in nodes] == [
        ("mine", 3_600_000),
        ("w:load", 5),
        ("w:tell", 3_600_000),
    ]
    assert all(each.pending for each in nodes)
    assert all(each.headers == {"headgate-workflow": "w:coordinator"} for each in nodes)


def test_without_more_words_it_is_kept_for_a_week_and_looked_at_each_second() -> None:
    workflow = Workflow("w")
    workflow.add(job())
    coordinator, node = workflow.jobs()
    assert coordinator.retention_ms == node.retention_ms == 7 * 24 * 3_600_000


@pytest.mark.parametrize(
    ("names", "after", "complaint"),
    [
        ([], {}, "workflow must contain at least one node"),
        (["a", "a"], {}, "node name `a` is used twice"),
        ([""], {}, "node name must not be empty"),
        (["a"], {"a": ["b"]}, "node `a` depends on unknown node `b`"),
        (["a", "b"], {"b": ["a", "a"]}, "node `b` names a dependency twice"),
        (["a"], {"a": ["a"]}, "workflow contains a cycle: a -> a"),
        (["coordinator"], {}, "node `coordinator` would have the id of the coordinator"),
    ],
)
def test_graphs_that_are_none(
    names: list[str], after: dict[str, list[str]], complaint: str
) -> None:
    workflow = Workflow("w")
    with pytest.raises(InvalidRequest) as refused:  # noqa: PT012  # either call may refuse
        for name in names:
            workflow.add(job(), name=name, after=after.get(name, ()))
        workflow.jobs()
    assert refused.value.message == complaint


def test_no_more_nodes_than_a_batch_holds_beside_the_coordinator() -> None:
    workflow = Workflow("w")
    for number in range(MAX_NODES):
        workflow.add(job(), name=str(number))
    assert len(workflow.jobs()) == 1_000
    workflow.add(job(), name="one more")
    with pytest.raises(InvalidRequest, match="at most 999 nodes"):
        workflow.jobs()


@pytest.mark.parametrize("fields", [{"scheduled_at_ms": 5}, {"delay_ms": 5}])
def test_when_a_node_runs_is_for_the_workflow_to_say(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="the workflow decides when it runs"):
        Workflow("w").add(job(**fields))


def test_names_and_times_that_cannot_be() -> None:
    refusals: list[tuple[Callable[[], Workflow], str]] = [
        (lambda: Workflow(""), "workflow id must not be empty"),
        (lambda: Workflow("x" * 250), "workflow id must be at most 255 bytes"),
        (lambda: Workflow("w", poll_interval_ms=0), "workflow poll interval must be at least 1 ms"),
        (lambda: Workflow("w", retention_ms=0), "workflow retention must be at least 1 ms"),
    ]
    for make, complaint in refusals:
        with pytest.raises(InvalidRequest) as refused:
            make()
        assert refused.value.message == complaint


async def test_an_application_without_workflows_does_not_enqueue_one() -> None:
    workflow = Workflow("w")
    workflow.add(job())
    with pytest.raises(InvalidRequest, match="make the application with workflows"):
        await Headgate().enqueue_workflow(workflow)


def test_its_workers_serve_the_queue_of_coordinators() -> None:
    app = Headgate(workflows=True)

    @app.task("a", queue="q")
    async def handler() -> None: ...

    assert app.queues == ("headgate-workflow", "q")


def test_a_task_of_the_same_kind_is_not_taken_in_twice() -> None:
    app, other = Headgate(), Headgate()

    @app.task("a")
    async def handler() -> None: ...

    other.adopt(handler)
    with pytest.raises(RegistrationError, match="kind `a` has a handler already"):
        other.adopt(handler)
