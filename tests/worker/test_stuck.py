"""Handlers that do not end although they were told to, and workers that grow too large."""

import asyncio
import logging
import threading

import pytest

from headgate import Envelope, Headgate, InvalidRequest, JobContext, WorkerConfig
from headgate.model.job import Claim
from headgate.telemetry import Event, WorkerMemory
from headgate.worker.memory import resident_bytes
from tests.store.rows import Observer, state_of
from tests.worker.conftest import StartWorker
from tests.worker.waiting import eventually, reaches


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [text for record in caplog.records if "still runs" in (text := record.getMessage())]


async def test_a_handler_that_swallows_its_cancellation_is_complained_of_once(
    app: Headgate, start_worker: StartWorker, caplog: pytest.LogCaptureFixture
) -> None:
    go_on = asyncio.Event()

    async def deep() -> None:
        while not go_on.is_set():
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                continue

    @app.task("job", timeout_ms=20)
    async def job() -> None:
        await deep()

    enqueued = await job.enqueue()
    worker = start_worker(stuck_after_ms=50)
    await eventually(lambda: bool(complaints(caplog)))
    go_on.set()
    await eventually(lambda: worker.running == 0)
    (text,) = complaints(caplog)
    assert f"job {enqueued.id} (job) still runs 50 ms after it was told to end: timeout" in text
    assert "in job" in text
    assert "in deep" in text


async def test_a_thread_that_hangs_is_shown_where_it_hangs(
    app: Headgate, start_worker: StartWorker, caplog: pytest.LogCaptureFixture
) -> None:
    go_on = threading.Event()

    def deep() -> None:
        go_on.wait(20)

    @app.task("job", timeout_ms=20)
    def job() -> None:
        deep()

    await job.enqueue()
    worker = start_worker(stuck_after_ms=50)
    await eventually(lambda: bool(complaints(caplog)))
    go_on.set()
    await eventually(lambda: worker.running == 0)
    assert "in deep" in complaints(caplog)[0]


async def test_one_that_ends_in_time_is_not(
    app: Headgate,
    start_worker: StartWorker,
    observer: Observer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    @app.task("job", timeout_ms=20)
    async def job() -> None:
        await asyncio.Event().wait()

    jobs = [await job.enqueue() for _ in range(3)]
    start_worker(stuck_after_ms=20)
    for enqueued in jobs:
        await reaches(observer, enqueued.id, "retryable")
    await asyncio.sleep(0.05)
    assert complaints(caplog) == []


class Heard:
    """Listens to a worker."""

    def __init__(self, events: list[Event]) -> None:
        self._events = events

    def on_event(self, event: Event, /) -> None:
        self._events.append(event)

    def attempt(self, claim: Claim, /) -> None:
        return None


async def test_a_worker_that_has_grown_too_large_drains_and_ends(
    app: Headgate,
    start_worker: StartWorker,
    observer: Observer,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = asyncio.Event()
    # It grows as soon as it has something to do.
    monkeypatch.setattr("headgate.worker.memory.resident_bytes", lambda: started.is_set())
    go_on = asyncio.Event()

    @app.task("job")
    async def job() -> None:
        started.set()
        await go_on.wait()

    told: list[Event] = []
    app.telemetry.add(Heard(told))
    running = await job.enqueue()
    worker = start_worker(memory_limit_bytes=1, memory_check_ms=100, shutdown_timeout_ms=20_000)
    await started.wait()
    await eventually(lambda: worker._shutdown.draining)
    later = await job.enqueue()
    go_on.set()
    await reaches(observer, running.id, None)
    assert await state_of(observer, later.id) == "available"
    assert any("it ends, to be started anew" in r.getMessage() for r in caplog.records)
    looks = [event for event in told if isinstance(event, WorkerMemory)]
    assert looks[-1] == WorkerMemory(worker.worker_id, 1, 1, restart_requested=True)
    assert not any(look.restart_requested for look in looks[:-1])


def test_the_memory_of_a_process_is_read() -> None:
    assert 1_000_000 < resident_bytes() < 100_000_000_000
    with pytest.raises(InvalidRequest, match="memory_limit_bytes must be >= 0"):
        WorkerConfig(memory_limit_bytes=-1)


async def test_kinds_that_wait_without_a_handler_are_told_at_the_start(
    app: Headgate, start_worker: StartWorker, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task("known", aliases=["alias"])
    async def known(ctx: JobContext) -> None: ...

    for kind, queue in (("known", "a"), ("alias", "a"), ("unknown", "a"), ("elsewhere", "b")):
        await app.enqueue(Envelope(kind=kind, queue=queue, scheduled_at_ms=0, pending=False))
    start_worker(queues=("a",))

    def told() -> list[str]:
        return [
            record.getMessage()
            for record in caplog.records
            if "has no handler for it" in record.getMessage()
        ]

    await eventually(lambda: bool(told()))
    assert told() == ["jobs of kind unknown wait, and this worker has no handler for it"]


async def test_a_worker_that_ends_leaves_the_registry(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    async def registered() -> int:
        count: int = await observer.fetchval("SELECT count(*) FROM headgate_worker")
        return count

    async def alone() -> bool:
        return await registered() == 1

    async def gone() -> bool:
        return await registered() == 0

    logging.getLogger("headgate").debug("a worker without jobs")
    worker = start_worker()
    await eventually(alone)
    worker.shutdown()
    await eventually(gone)
