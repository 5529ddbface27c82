"""Waiting for the end of a job that somebody else runs, and enqueueing from code that blocks."""

import asyncio
import multiprocessing
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import text

from headgate import (
    EnqueuePipeline,
    EnqueueRequest,
    Headgate,
    InvalidRequest,
    JobContext,
    Skip,
    WaitTimeout,
)
from tests.store.rows import Observer, count_jobs
from tests.store.transactions import blocking
from tests.worker.conftest import StartWorker
from tests.worker.waiting import eventually, reaches


async def test_a_job_without_retention_is_waited_for_and_its_result_read(
    app: Headgate, start_worker: StartWorker
) -> None:
    @app.task("double")
    async def double(number: int) -> int:
        return 2 * number

    start_worker()
    completions = await asyncio.gather(*(double.enqueue_and_wait(n) for n in range(20)))
    assert [completion.value(int) for completion in completions] == [2 * n for n in range(20)]
    assert all(completion.succeeded for completion in completions)


async def test_an_end_that_is_no_success_says_why(app: Headgate, start_worker: StartWorker) -> None:
    @app.task("job", max_attempts=1)
    async def job(how: str) -> None:
        if how == "skip":
            raise Skip("not today")
        raise ValueError("no")

    start_worker()
    skipped, failed = await job.enqueue_and_wait("skip"), await job.enqueue_and_wait("fail")
    assert (skipped.state, skipped.error, skipped.value()) == ("archived", "not today", None)
    assert failed.error is not None
    assert failed.error.startswith("ValueError: no")
    assert not failed.succeeded


async def test_a_job_that_takes_too_long_goes_on(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    go_on = asyncio.Event()

    @app.task("job")
    async def job(ctx: JobContext) -> str:
        await go_on.wait()
        return "done"

    start_worker()
    with pytest.raises(WaitTimeout) as late:
        await job.enqueue_and_wait(wait_ms=50)
    go_on.set()
    assert (await app.wait(late.value.job_id)).value() == "done"
    await observer.execute("DELETE FROM headgate_job")
    assert (await app.wait(late.value.job_id)).state == "deleted"
    with pytest.raises(InvalidRequest, match="wait must be at least 1 ms"):
        await job.enqueue_and_wait(wait_ms=0)


@pytest.fixture
def shop(headgate_database: str) -> Iterator[Headgate]:
    app = Headgate(dsn=headgate_database)

    @app.task("double")
    async def double(number: int) -> int:
        return 2 * number

    yield app
    app.close_blocking()


def double_of(app: Headgate) -> Any:
    return app.tasks["double"]


async def test_scripts_enqueue_without_a_loop(shop: Headgate, observer: Observer) -> None:
    double = double_of(shop)

    def script() -> list[str]:
        one = double.enqueue_blocking(1)
        many = shop.enqueue_blocking([double.job(n) for n in range(3)])
        shop.close_blocking()
        return [one.id, *(job.id for job in many), double.enqueue_blocking(5).id]

    ids = await asyncio.to_thread(script)
    assert len(set(ids)) == await count_jobs(observer) == 5


async def test_scripts_wait_for_results(
    shop: Headgate, app: Headgate, start_worker: StartWorker
) -> None:
    @app.task("double")
    async def double(number: int) -> int:
        return 2 * number

    start_worker()
    job = double_of(shop).job(4)
    completion = await asyncio.to_thread(shop.enqueue_and_wait_blocking, job)
    assert completion.value(int) == 8
    assert await asyncio.to_thread(shop.wait_blocking, completion.job_id) == completion


async def test_a_script_enqueues_in_its_own_transaction(
    shop: Headgate, observer: Observer, headgate_database: str
) -> None:
    def script() -> None:
        with blocking(headgate_database) as connection:
            double_of(shop).enqueue_blocking(1, connection=connection)
            raise KeyError

    with pytest.raises(KeyError):
        await asyncio.to_thread(script)
    assert await count_jobs(observer) == 0


async def test_on_an_event_loop_nothing_blocks(shop: Headgate) -> None:
    with pytest.raises(InvalidRequest, match="this blocks"):
        double_of(shop).enqueue_blocking(1)


async def test_middleware_takes_part_in_a_script(
    headgate_database: str, observer: Observer
) -> None:
    async def tag(request: EnqueueRequest, call_next: Any) -> Any:
        for job in request.jobs:
            job.headers["seen"] = "yes"
        return await call_next(request)

    app = Headgate(dsn=headgate_database, pipeline=EnqueuePipeline(middleware=[tag]))

    @app.task("job")
    async def job() -> None: ...

    await asyncio.to_thread(job.enqueue_blocking)
    await asyncio.to_thread(app.close_blocking)
    headers = await observer.fetchval("SELECT headers::text FROM headgate_job")
    assert headers == '{"seen": "yes"}'


def test_a_forked_child_begins_with_a_way_of_its_own(
    shop: Headgate, headgate_database: str
) -> None:
    double = double_of(shop)
    double.enqueue_blocking(1)
    forking = multiprocessing.get_context("fork")
    child = forking.Process(target=double.enqueue_blocking, args=(2,))
    child.start()
    child.join(30)
    child.kill()
    assert child.exitcode == 0
    with blocking(headgate_database) as connection:
        assert connection.scalar(text("SELECT count(*) FROM headgate_job")) == 2


async def test_a_worker_is_woken_by_what_a_script_enqueues(
    shop: Headgate, app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    @app.task("double")
    async def double(number: int) -> int:
        return 2 * number

    worker = start_worker(poll_floor_ms=60_000, poll_ceiling_ms=60_000)
    await eventually(lambda: worker._window.polls > 0)
    job = await asyncio.to_thread(double_of(shop).enqueue_blocking, 1)
    await reaches(observer, job.id, None)
