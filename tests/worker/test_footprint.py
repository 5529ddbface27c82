"""What is left in a worker of the jobs that it has run: nothing."""

import asyncio
import gc
from collections.abc import Iterator

import pytest

from headgate import Headgate, JobContext, Snooze
from headgate.worker.attempt import Attempt
from headgate.worker.record import AttemptRecord
from tests.store.rows import Observer
from tests.worker.conftest import StartWorker
from tests.worker.waiting import eventually


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def alive(*kinds: type) -> list[str]:
    return [type(each).__name__ for each in gc.get_objects() if isinstance(each, kinds)]


@pytest.mark.usefixtures("without_collector")
async def test_jobs_of_any_end_leave_neither_objects_nor_tasks(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    @app.task("plain")
    async def plain() -> None: ...

    @app.task("talks")
    async def talks(ctx: JobContext) -> int:
        ctx.log("a line")
        ctx.spawn(asyncio.sleep(0))
        return 1

    @app.task("fails", max_attempts=1)
    async def fails(ctx: JobContext) -> None:
        raise ValueError(ctx.id)

    @app.task("waits")
    async def waits() -> None:
        raise Snooze(delay_ms=3_600_000)

    @app.task("late", timeout_ms=1, max_attempts=1)
    async def late() -> None:
        await asyncio.Event().wait()

    @app.task("threaded")
    def threaded(ctx: JobContext) -> None:
        ctx.log("a line")

    tasks = (plain, talks, fails, waits, late, threaded)

    async def no_more() -> bool:
        waiting = "SELECT EXISTS (SELECT FROM headgate_job WHERE state IN ('available', 'running'))"
        return not await observer.fetchval(waiting) and worker.held == 0

    async def run(times: int) -> None:
        await app.enqueue_many([task.job() for task in tasks for _ in range(times)])
        await eventually(no_more)

    worker = start_worker(concurrency=50)
    await run(1)
    before = len(asyncio.all_tasks())
    await run(5)
    assert len(asyncio.all_tasks()) <= before
    assert alive(Attempt, AttemptRecord, JobContext) == []
