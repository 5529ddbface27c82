"""Timeouts and deadlines, of handlers on the event loop and in threads."""

import asyncio
import json
import threading
from datetime import timedelta

from headgate import Headgate, JobContext
from tests.store.rows import Observer, job_row, now_ms, state_of
from tests.worker.conftest import StartWorker
from tests.worker.waiting import eventually, reaches


async def history(observer: Observer, job_id: str) -> list[str]:
    row = await job_row(observer, job_id)
    assert row is not None
    assert row["crash_attempt"] == 0
    return [entry["error"] for entry in json.loads(row["errors"])]


async def test_an_attempt_that_takes_too_long_is_cancelled(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    cancelled: list[bool] = []

    @app.task("slow", timeout=timedelta(milliseconds=50), max_attempts=1)
    async def slow(ctx: JobContext) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(ctx.stopped)

    job = await slow.enqueue()
    start_worker()
    await reaches(observer, job.id, "archived")
    assert await history(observer, job.id) == ["attempt timed out after 50 ms"]
    assert cancelled == [True]


async def test_a_handler_that_swallows_its_cancellation_timed_out_all_the_same(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    @app.task("stubborn", timeout_ms=50, max_attempts=1, retention_ms=60_000)
    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "fine"
        return "never"

    job = await stubborn.enqueue()
    start_worker()
    await reaches(observer, job.id, "archived")
    assert await history(observer, job.id) == ["attempt timed out after 50 ms"]


async def test_a_thread_is_told_and_no_other_attempt_begins_beside_it(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    contexts: list[JobContext] = []
    go_on = threading.Event()

    @app.task("slow", timeout_ms=50, max_attempts=1)
    def slow(ctx: JobContext) -> None:
        contexts.append(ctx)
        go_on.wait(20)

    @app.task("next")
    async def after() -> None: ...

    job = await slow.enqueue()
    worker = start_worker(lease_ms=300)
    await eventually(lambda: bool(contexts) and contexts[0].stopped)
    other = await after.enqueue()
    await reaches(observer, other.id, None)
    assert await state_of(observer, job.id) == "running"
    assert worker.running == 1
    go_on.set()
    await reaches(observer, job.id, "archived")
    assert await history(observer, job.id) == ["attempt timed out after 50 ms"]


async def test_a_job_past_its_deadline_does_not_run(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    ran: list[bool] = []

    @app.task("late")
    async def late() -> None:
        ran.append(True)

    deadline_ms = await now_ms(observer) + 300
    job = await late.enqueue(deadline_ms=deadline_ms)

    async def passed() -> bool:
        return await now_ms(observer) > deadline_ms

    await eventually(passed)
    start_worker()
    await reaches(observer, job.id, "archived")
    row = await job_row(observer, job.id)
    assert row is not None
    assert (row["attempt"], ran) == (0, [])


async def test_a_deadline_ends_a_running_attempt_for_good(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    started = asyncio.Event()

    @app.task("long", timeout_ms=60_000)
    async def long() -> None:
        started.set()
        await asyncio.Event().wait()

    start_worker()
    for patience_ms in (1_000, 5_000, 25_000):
        job = await long.enqueue(deadline_ms=await now_ms(observer) + patience_ms)
        await reaches(observer, job.id, "archived")
        # On a busy machine a deadline may pass before the worker has found the job.
        if started.is_set():
            break
    assert started.is_set()
    assert await history(observer, job.id) == ["deadline exceeded"]
    row = await job_row(observer, job.id)
    assert row is not None
    assert row["attempt"] == 0
