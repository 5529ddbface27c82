"""How a worker ends: in order, in time, and with nothing of its left running."""

import asyncio
import logging
import signal

import pytest

from headgate import Death, Headgate, JobContext, Store, Worker
from headgate.model.lifecycle import State
from tests.store.rows import Observer, job_row, state_of
from tests.worker.conftest import StartProcess, StartWorker
from tests.worker.waiting import eventually, reaches

SLEEPER = """
import asyncio, time
from headgate import Headgate, JobContext

app = Headgate()

@app.task("sleeps", retention_ms=60_000)
async def sleeps(seconds: float) -> None:
    print("sleeps", flush=True)
    await asyncio.sleep(seconds)

@app.task("threaded", retention_ms=60_000)
def threaded(seconds: float) -> None:
    print("threaded", flush=True)
    time.sleep(seconds)

@app.task("blocks", retention_ms=60_000)
async def blocks(seconds: float) -> None:
    print("blocks", flush=True)
    time.sleep(seconds)

@app.task("stubborn", retention_ms=60_000)
async def stubborn() -> None:
    print("stubborn", flush=True)
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            print("ignored", flush=True)
"""


async def untouched(observer: Observer, job_id: str) -> bool:
    """Whether the job waits as if no worker had ever had it."""
    row = await job_row(observer, job_id)
    assert row is not None
    return (
        row["state"] == State.AVAILABLE
        and (row["attempt"], row["crash_attempt"], row["errors"]) == (0, 0, "[]")
        and (row["lease_id"], row["claimed_at_ms"]) == (None, None)
    )


async def running_jobs(observer: Observer) -> int:
    count: int = await observer.fetchval(
        "SELECT count(*) FROM headgate_job WHERE state = 'running'"
    )
    return count


def declare(name: str) -> Headgate:
    """An application that only enqueues what the module of a process handles."""
    app = Headgate()

    @app.task(name)
    async def declared(seconds: float) -> None: ...

    return app


async def enqueue(store: Store, name: str, seconds: float) -> str:
    app = declare(name)
    app.bind(store)
    return (await app.tasks[name].enqueue(seconds)).id


async def test_the_first_signal_lets_handlers_finish(
    store: Store, start_process: StartProcess, observer: Observer
) -> None:
    process = start_process(SLEEPER, "--lease-ms", "600", "--concurrency", "1")
    job_id = await enqueue(store, "sleeps", 2.0)
    await eventually(lambda: process.says("sleeps"))
    waiting = await enqueue(store, "sleeps", 0.0)
    process.signal(signal.SIGTERM)
    assert process.ended(10_000) == 0, process.output
    # The sleep outlasted three leases: it was renewed while draining.
    row = await job_row(observer, job_id)
    assert row is None or (row["state"], row["crash_attempt"]) == (State.COMPLETED, 0)
    assert await untouched(observer, waiting)


async def test_bc_67_the_time_limit_is_kept_and_leftovers_are_released(
    store: Store, start_process: StartProcess, observer: Observer
) -> None:
    process = start_process(SLEEPER, "--shutdown-timeout-ms", "1000")
    jobs = [await enqueue(store, name, 60.0) for name in ("sleeps", "threaded")]
    await eventually(lambda: process.says("sleeps") and process.says("threaded"))
    process.signal(signal.SIGTERM)
    assert process.ended(6_000) == 0, process.output
    for job_id in jobs:
        assert await untouched(observer, job_id)


@pytest.mark.parametrize("kind", ["sleeps", "threaded", "blocks", "stubborn"])
async def test_the_second_signal_releases_at_once(
    store: Store, start_process: StartProcess, observer: Observer, kind: str
) -> None:
    process = start_process(SLEEPER)
    job_id = await enqueue(store, kind, 60.0)
    await eventually(lambda: process.says(kind))
    process.signal(signal.SIGTERM)
    await eventually(lambda: kind == "blocks" or process.says("drains: 1 jobs run"), limit_ms=2_000)
    process.signal(signal.SIGINT)
    # Only a loop that does not react is given up, and says so with its status.
    assert process.ended(10_000) == (1 if kind == "blocks" else 0), process.output
    assert await running_jobs(observer) == 0
    assert await untouched(observer, job_id)


async def test_reports_that_are_ready_survive_a_blocked_event_loop(
    store: Store, start_process: StartProcess, observer: Observer
) -> None:
    """One handler ends, the next one blocks the loop before anything can be sent."""
    app = Headgate()
    app.bind(store)

    @app.task("sleeps", retention_ms=60_000)
    async def sleeps(seconds: float) -> None: ...

    @app.task("blocks")
    async def blocks(seconds: float) -> None: ...

    ready, blocked = await app.enqueue_many([sleeps.job(0.0), blocks.job(60.0)])
    process = start_process(SLEEPER.replace("await asyncio.sleep(seconds)", "pass"))
    await eventually(lambda: process.says("blocks"))
    assert await state_of(observer, ready.id) == State.RUNNING
    process.signal(signal.SIGTERM)
    process.signal(signal.SIGINT)
    assert process.ended(10_000) == 1
    assert await state_of(observer, ready.id) == State.COMPLETED
    assert await untouched(observer, blocked.id)


async def test_bc_35_what_was_taken_ahead_goes_back(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    go_on = asyncio.Event()

    @app.task("works")
    async def works(hold: bool) -> None:
        if hold:
            await go_on.wait()

    await app.enqueue_many([works.job(number >= 500) for number in range(700)])
    worker = start_worker(concurrency=5, shutdown_timeout_ms=300)
    await eventually(lambda: worker.held > 5 and worker.running == 5)
    worker.shutdown()
    await eventually(lambda: worker.held == 0)
    rows = await observer.fetch("SELECT state, attempt, crash_attempt, errors FROM headgate_job")
    assert {tuple(row.values()) for row in rows} == {("available", 0, 0, "[]")}


async def test_bc_68_a_release_leaves_no_trace(
    app: Headgate,
    start_worker: StartWorker,
    observer: Observer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cleaned: list[str] = []
    told: list[Death] = []
    app.on_death(told.append)

    @app.task("holds", max_attempts=1)
    async def holds(ctx: JobContext) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(ctx.id)

    job = await holds.enqueue()
    worker = start_worker(shutdown_timeout_ms=50)
    await eventually(lambda: worker.running == 1)
    worker.obey("terminate")
    await reaches(observer, job.id, "available")
    assert await untouched(observer, job.id)
    assert (cleaned, told) == ([job.id], [])
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING] == []


async def test_bc_40_a_restart_waits_as_long_as_it_takes(
    app: Headgate, store: Store, start_worker: StartWorker, observer: Observer
) -> None:
    go_on = asyncio.Event()

    @app.task("holds", retention_ms=60_000)
    async def holds() -> None:
        await go_on.wait()

    job = await holds.enqueue()
    worker = start_worker(lease_ms=600, shutdown_timeout_ms=0, duties=True)
    await eventually(lambda: worker.running == 1)
    await store.workers.signal(worker.worker_id, "restart")

    async def says_restarting() -> bool:
        return await status_of(observer, worker) == ("restarting", False)

    await eventually(says_restarting)
    began = await job_row(observer, job.id)
    assert began is not None

    async def renewed() -> bool:
        row = await job_row(observer, job.id)
        return row is not None and row["lease_expires_at_ms"] > began["lease_expires_at_ms"] + 1_200

    await eventually(renewed)
    assert await state_of(observer, job.id) == State.RUNNING
    go_on.set()
    await reaches(observer, job.id, "completed")


async def test_commands_reach_a_worker_with_its_beat(
    app: Headgate, store: Store, start_worker: StartWorker, observer: Observer
) -> None:
    @app.task("quick")
    async def quick() -> None: ...

    worker = start_worker(lease_ms=300, duties=True)

    async def says(*expected: object) -> None:
        async def there() -> bool:
            return await status_of(observer, worker) == expected

        await eventually(there)

    await says("running", True)
    await store.workers.signal(worker.worker_id, "quiet")
    await says("quiet", True)
    job = await quick.enqueue()
    await store.workers.signal(worker.worker_id, "resign")
    await says("quiet", False)
    assert await state_of(observer, job.id) == State.AVAILABLE
    await store.workers.signal(worker.worker_id, "resume")
    await says("running", False)
    await reaches(observer, job.id, None)


async def status_of(observer: Observer, worker: Worker) -> tuple[object, ...] | None:
    row = await observer.fetchrow(
        "SELECT status, duties_active FROM headgate_worker WHERE worker_id = $1", worker.worker_id
    )
    return None if row is None else tuple(row.values())


async def test_a_cancelled_run_releases_what_it_holds(
    app: Headgate, store: Store, observer: Observer
) -> None:
    started = asyncio.Event()

    @app.task("holds")
    async def holds() -> None:
        started.set()
        await asyncio.Event().wait()

    job = await holds.enqueue()
    task = asyncio.create_task(Worker(app, store).run())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await untouched(observer, job.id)
    assert [t for t in asyncio.all_tasks() if "headgate" in t.get_name()] == []
