"""Leases: kept alive under every handler, and let go of at once when they are lost."""

import asyncio
import logging
import threading
import time

import pytest

from headgate import Headgate, JobContext, LeaseLost, Store
from headgate.model.job import Lease
from headgate.model.lifecycle import State
from tests.store.rows import Observer, job_row, state_of
from tests.worker.conftest import StartWorker
from tests.worker.waiting import eventually, reaches

LEASE_MS = 600

STEAL = (
    "UPDATE headgate_job SET fence = fence + 1, lease_id = 'thief', claimed_by = 'thief'"
    " WHERE ulid = $1"
)


def warnings(caplog: pytest.LogCaptureFixture, job_id: str) -> list[str]:
    texts = [(record.levelno, record.getMessage()) for record in caplog.records]
    return [text for level, text in texts if level >= logging.WARNING and job_id in text]


async def test_bc_29_a_handler_may_outlive_its_lease_many_times(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    runs: list[int] = []

    @app.task("long", retention_ms=60_000)
    async def long(ctx: JobContext) -> None:
        runs.append(ctx.lease.fence)
        began = await job_row(observer, ctx.id)
        assert began is not None
        first = began["lease_expires_at_ms"]

        async def renewed_thrice() -> bool:
            row = await job_row(observer, ctx.id)
            return row is not None and row["lease_expires_at_ms"] > first + 3 * LEASE_MS

        await eventually(renewed_thrice)

    job = await long.enqueue()
    start_worker(lease_ms=LEASE_MS, duties=True)
    await reaches(observer, job.id, "completed")
    row = await job_row(observer, job.id)
    assert row is not None
    assert (runs, row["crash_attempt"]) == ([1], 0)


async def test_a_blocked_event_loop_keeps_its_leases(
    app: Headgate,
    store: Store,
    start_worker: StartWorker,
    observer: Observer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    @app.task("blocks", retention_ms=60_000)
    async def blocks() -> None:
        time.sleep(3 * LEASE_MS / 1000)  # noqa: ASYNC251  # this is what must do no harm

    @app.task("waits", retention_ms=60_000)
    async def waits(ctx: JobContext) -> None:
        await asyncio.sleep(0)

    jobs = [await blocks.enqueue(), await waits.enqueue()]
    reclaimed: list[object] = []
    stop = threading.Event()

    def reclaim_meanwhile(dsn: str) -> None:
        async def reclaim() -> None:
            async with await Store.open(store.settings) as other:
                while not stop.is_set():
                    reclaimed.extend(await other.upkeep.reclaim_expired(100))

        asyncio.run(reclaim())

    thread = threading.Thread(target=reclaim_meanwhile, args=(store.settings.dsn,))
    thread.start()
    try:
        start_worker(lease_ms=LEASE_MS)
        for job in jobs:
            await reaches(observer, job.id, "completed")
    finally:
        stop.set()
        await asyncio.to_thread(thread.join)
    assert reclaimed == []
    assert any("a handler blocks the event loop" in r.getMessage() for r in caplog.records)
    assert any("in blocks" in r.getMessage() for r in caplog.records)


async def test_a_lost_lease_cancels_that_attempt_and_no_other(
    app: Headgate,
    start_worker: StartWorker,
    observer: Observer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    ended: dict[str, BaseException | None] = {}
    go_on = asyncio.Event()

    @app.task("holds", retention_ms=60_000)
    async def holds(ctx: JobContext) -> None:
        ended[ctx.id] = None
        try:
            await go_on.wait()
        except asyncio.CancelledError as error:
            ended[ctx.id] = error
            raise

    stolen, kept = await holds.enqueue(), await holds.enqueue()
    start_worker(lease_ms=LEASE_MS)
    await eventually(lambda: len(ended) == 2)
    await observer.execute(STEAL, stolen.id)
    await eventually(lambda: ended[stolen.id] is not None)
    assert ended[kept.id] is None
    go_on.set()
    await reaches(observer, kept.id, "completed")
    row = await job_row(observer, stolen.id)
    assert row is not None
    assert (row["state"], row["lease_id"]) == ("running", "thief")
    assert warnings(caplog, stolen.id) == [f"job {stolen.id} (holds): the lease is lost; stopping"]


async def test_bc_64_a_cancelled_job_stops_within_a_beat_without_notifications(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    stopped = asyncio.Event()
    started = asyncio.Event()

    @app.task("holds")
    async def holds() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    job = await holds.enqueue()
    start_worker(lease_ms=LEASE_MS)
    await started.wait()
    await observer.execute(
        "UPDATE headgate_job SET state = 'cancelled', lease_id = NULL, lease_expires_at_ms = NULL,"
        " claimed_by = NULL WHERE ulid = $1",
        job.id,
    )
    async with asyncio.timeout(2 * LEASE_MS / 3 / 1000 + 1):
        await stopped.wait()
    assert await state_of(observer, job.id) == State.CANCELLED


async def test_news_of_an_older_lease_does_not_stop_the_newer_attempt(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    go_on = asyncio.Event()

    @app.task("holds", retention_ms=60_000)
    async def holds() -> None:
        await go_on.wait()

    job = await holds.enqueue()
    worker = start_worker()
    await eventually(lambda: worker.running == 1)
    # What a renewal says that was under way when the job came back to this worker.
    worker._custody.lost(Lease(job.id, "an older one", 0))
    go_on.set()
    await reaches(observer, job.id, "completed")


async def test_a_thread_learns_that_its_lease_is_lost(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    told = threading.Event()
    started = threading.Event()

    @app.task("holds")
    def holds(ctx: JobContext) -> None:
        started.set()
        end = time.monotonic() + 20
        while not ctx.stopped and time.monotonic() < end:
            told.wait(0.005)
        told.set()

    job = await holds.enqueue()
    worker = start_worker(lease_ms=LEASE_MS)
    await eventually(started.is_set)
    await observer.execute(STEAL, job.id)
    await eventually(told.is_set)
    await eventually(lambda: not worker.running)
    assert await state_of(observer, job.id) == State.RUNNING


async def test_bc_32_a_row_deleted_by_hand_costs_one_warning(
    app: Headgate,
    start_worker: StartWorker,
    observer: Observer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    go_on = asyncio.Event()
    started = asyncio.Event()

    @app.task("holds")
    async def holds() -> None:
        started.set()
        await go_on.wait()

    @app.task("next")
    async def after() -> None: ...

    job = await holds.enqueue()
    worker = start_worker(concurrency=1, lease_ms=60_000)
    await started.wait()
    await observer.execute("DELETE FROM headgate_job WHERE ulid = $1", job.id)
    go_on.set()
    following = await after.enqueue()
    await reaches(observer, following.id, None)
    await eventually(lambda: worker.held == 0)
    assert warnings(caplog, job.id) == [
        f"job {job.id} (holds): the lease is lost, its report does not count"
    ]


async def test_a_lease_can_be_made_longer_and_its_loss_is_told(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    outcome: list[str] = []

    @app.task("extends", retention_ms=60_000)
    async def extends(ctx: JobContext) -> None:
        before = await job_row(observer, ctx.id)
        await ctx.extend_lease(120_000)
        after = await job_row(observer, ctx.id)
        assert before is not None
        assert after is not None
        assert after["lease_expires_at_ms"] > before["lease_expires_at_ms"] + 50_000
        await observer.execute(STEAL, ctx.id)
        try:
            await ctx.extend_lease(60_000)
        except LeaseLost:
            outcome.append("lost")
            raise

    job = await extends.enqueue()
    worker = start_worker(lease_ms=60_000)
    await eventually(lambda: outcome == ["lost"])
    await eventually(lambda: worker.held == 0)
    assert await state_of(observer, job.id) == State.RUNNING


async def test_bc_02_a_late_report_of_a_reclaimed_attempt_does_not_count(
    app: Headgate, store: Store, start_worker: StartWorker, observer: Observer
) -> None:
    """The same worker takes the job again while its first attempt hangs in a thread."""
    runs: list[int] = []
    go_on = threading.Event()
    contexts: list[JobContext] = []

    @app.task("hangs", retention_ms=60_000)
    def hangs(ctx: JobContext) -> str:
        runs.append(ctx.lease.fence)
        if len(runs) == 1:
            contexts.append(ctx)
            go_on.wait(20)
            return "first"
        return "second"

    job = await hangs.enqueue()
    worker = start_worker(lease_ms=60_000)
    await eventually(lambda: len(runs) == 1)
    await observer.execute(
        "UPDATE headgate_job SET lease_expires_at_ms = 0 WHERE ulid = $1", job.id
    )
    await eventually(lambda: _reclaim(store))
    await observer.execute("UPDATE headgate_job SET scheduled_at_ms = 0 WHERE ulid = $1", job.id)
    assert await store.upkeep.promote_due(10) == 1
    await reaches(observer, job.id, "completed")
    # Long before the next renewal, which would have told it too.
    assert contexts[0].stopped
    go_on.set()
    await eventually(lambda: not worker.running and worker.held == 0)
    row = await job_row(observer, job.id)
    assert row is not None
    assert (runs, row["result_bytes"], row["crash_attempt"]) == ([1, 2], b'"second"', 1)


async def _reclaim(store: Store) -> bool:
    return len(await store.upkeep.reclaim_expired(10)) == 1
