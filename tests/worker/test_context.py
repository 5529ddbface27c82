"""What a handler says about its attempt while it runs, and what it starts beside itself."""

import asyncio
import json
import logging
import threading
from contextvars import ContextVar
from typing import Any

import pytest

from headgate import (
    Headgate,
    InvalidRequest,
    JobContext,
    JobLogHandler,
    LeaseLost,
    Skip,
    Store,
    current_job,
)
from tests.store.rows import Observer, job_row, now_ms
from tests.worker.conftest import StartWorker
from tests.worker.waiting import eventually, reaches

HOUR_MS = 3_600_000


async def ended(observer: Observer, job_id: str, state: str) -> dict[str, Any]:
    await reaches(observer, job_id, state)
    row = await job_row(observer, job_id)
    assert row is not None
    return {**row, "errors": json.loads(row["errors"])}


@pytest.mark.parametrize("threaded", [False, True])
async def test_progress_and_output_can_be_read_while_it_runs(
    app: Headgate, store: Store, start_worker: StartWorker, observer: Observer, threaded: bool
) -> None:
    said = asyncio.Event()
    go_on = threading.Event()
    loop = asyncio.get_running_loop()

    @app.task("async", retention_ms=HOUR_MS)
    async def on_loop(ctx: JobContext) -> None:
        await ctx.progress(7, 10, "seven")
        await ctx.output({"pages": 7}, schema_version=2)
        said.set()
        await asyncio.to_thread(go_on.wait, 20)

    @app.task("def", retention_ms=HOUR_MS)
    def in_thread(ctx: JobContext) -> None:
        ctx.blocking.progress(7, 10, "seven")
        ctx.blocking.output({"pages": 7}, schema_version=2)
        loop.call_soon_threadsafe(said.set)
        go_on.wait(20)

    job = await (in_thread if threaded else on_loop).enqueue()
    start_worker()
    await said.wait()
    progress = await store.artifacts.progress(job.id)
    output = await store.artifacts.output(job.id)
    go_on.set()
    assert progress is not None
    assert (progress.current, progress.total, progress.message) == (7, 10, "seven")
    assert output is not None
    assert (output.schema_version, output.bytes) == (2, b'{"pages":7}')
    await reaches(observer, job.id, "completed")


async def test_what_cannot_be_said_is_refused_by_name(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    texts: list[str] = []

    @app.task("job", retention_ms=HOUR_MS)
    async def job(ctx: JobContext) -> None:
        for write in (ctx.progress(2, 1), ctx.output(object()), ctx.release(after_ms=0)):
            with pytest.raises(InvalidRequest) as refused:
                await write
            texts.append(refused.value.message)
        with pytest.raises(InvalidRequest) as refused:
            ctx.blocking.progress(1, 2)
        texts.append(refused.value.message)

    enqueued = await job.enqueue()
    start_worker()
    await reaches(observer, enqueued.id, "completed")
    assert texts == [
        "progress current must not exceed total",
        "output is not encodable: Encoding objects of type object is unsupported",
        "after must be at least 1 ms",
        "an `async` handler awaits; `ctx.blocking` is for `def` handlers",
    ]


async def test_a_release_gives_the_job_back_while_the_handler_goes_on(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    outcomes: list[str] = []

    @app.task("job")
    async def job(ctx: JobContext) -> str:
        await ctx.release(after_ms=HOUR_MS)
        row = await job_row(observer, ctx.id)
        assert row is not None
        outcomes.append(row["state"])
        try:
            await ctx.progress(1, 2)
        except LeaseLost:
            outcomes.append("refused")
        return "ignored"

    enqueued = await job.enqueue()
    worker = start_worker()
    await eventually(lambda: len(outcomes) == 2 and worker.running == 0)
    row = await ended(observer, enqueued.id, "scheduled")
    assert outcomes == ["scheduled", "refused"]
    assert (row["attempt"], row["crash_attempt"], row["errors"]) == (0, 0, [])
    assert HOUR_MS - 60_000 < row["scheduled_at_ms"] - await now_ms(observer) <= HOUR_MS


@pytest.mark.parametrize("threaded", [False, True])
async def test_loggers_of_the_application_reach_the_history_of_the_job_that_spoke(
    app: Headgate, start_worker: StartWorker, observer: Observer, threaded: bool
) -> None:
    logger = logging.getLogger("shop")
    handler = JobLogHandler(level=logging.INFO)
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)

    def work(number: int) -> None:
        job = current_job()
        assert job is not None
        assert job.kind in ("async", "def")
        logger.debug("not kept")
        logger.info("order %d", number)

    @app.task("async", retention_ms=HOUR_MS)
    async def on_loop(number: int) -> None:
        await asyncio.sleep(0)
        work(number)

    @app.task("def", retention_ms=HOUR_MS)
    def in_thread(number: int) -> None:
        work(number)

    task = in_thread if threaded else on_loop
    jobs = [(await task.enqueue(number)).id for number in range(4)]
    start_worker()
    try:
        for number, job_id in enumerate(jobs):
            row = await ended(observer, job_id, "completed")
            assert row["errors"][0]["logs"] == [f"INFO order {number}"]
    finally:
        logger.removeHandler(handler)
    logger.info("nobody's")
    assert current_job() is None


async def test_a_job_begins_without_the_variables_of_the_one_before(
    app: Headgate, store: Store, start_worker: StartWorker, observer: Observer
) -> None:
    tenant: ContextVar[str] = ContextVar("tenant", default="nobody")
    seen: list[str] = []

    @app.task("job", retention_ms=HOUR_MS)
    async def job(name: str) -> None:
        seen.append(tenant.get())
        tenant.set(name)

    jobs = await app.enqueue_many([job.job(str(number)) for number in range(6)])
    worker = start_worker(concurrency=1, queues=("elsewhere",))
    # Taken together, each of them is begun by the end of the one before.
    worker._custody.take(await store.gate.admit(worker.worker_id, ["default"], 6, 60_000))
    for enqueued in jobs:
        await reaches(observer, enqueued.id, "completed")
    assert seen == ["nobody"] * 6


async def test_success_waits_for_what_was_spawned(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    done: list[str] = []

    @app.task("job", retention_ms=HOUR_MS)
    async def job(ctx: JobContext) -> None:
        async def grandchild() -> None:
            await asyncio.sleep(0.01)
            done.append("grandchild")

        async def child() -> None:
            await asyncio.sleep(0.01)
            ctx.spawn(grandchild())
            done.append("child")

        ctx.spawn(child())
        done.append("handler")

    enqueued = await job.enqueue()
    start_worker()
    await reaches(observer, enqueued.id, "completed")
    assert done == ["handler", "child", "grandchild"]


@pytest.mark.parametrize("returns", [False, True])
async def test_a_child_that_fails_ends_the_attempt_and_everything_in_it(
    app: Headgate, start_worker: StartWorker, observer: Observer, returns: bool
) -> None:
    cancelled: list[str] = []

    async def wait(name: str) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(name)
            raise

    @app.task("job")
    async def job(ctx: JobContext) -> None:
        async def fail() -> None:
            await asyncio.sleep(0)
            raise ValueError("from a child")

        ctx.spawn(wait("sibling"))
        ctx.spawn(fail())
        if not returns:
            await wait("handler")

    enqueued = await job.enqueue()
    start_worker()
    row = await ended(observer, enqueued.id, "retryable")
    assert row["errors"][0]["error"].startswith("ValueError: from a child")
    assert sorted(cancelled) == (["sibling"] if returns else ["handler", "sibling"])


async def test_a_child_may_say_how_the_attempt_ends(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    @app.task("job")
    async def job(ctx: JobContext) -> None:
        async def skip() -> None:
            raise Skip("seen enough")

        ctx.spawn(skip())
        await asyncio.Event().wait()

    enqueued = await job.enqueue()
    start_worker()
    row = await ended(observer, enqueued.id, "archived")
    assert row["errors"][0]["error"] == "seen enough"


async def test_a_timeout_ends_children_before_the_report(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    states: list[str | None] = []

    @app.task("job", timeout_ms=50)
    async def job(ctx: JobContext) -> None:
        async def child() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                row = await job_row(observer, ctx.id)
                states.append(None if row is None else row["state"])

        ctx.spawn(child())
        await asyncio.Event().wait()

    enqueued = await job.enqueue()
    start_worker()
    row = await ended(observer, enqueued.id, "retryable")
    assert states == ["running"]
    assert row["errors"][0]["error"] == "attempt timed out after 50 ms"


async def test_nothing_is_spawned_after_the_end_or_from_a_thread(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    contexts: list[JobContext] = []
    texts: list[str] = []

    async def nothing() -> None: ...

    @app.task("async", retention_ms=HOUR_MS)
    async def on_loop(ctx: JobContext) -> None:
        contexts.append(ctx)

    @app.task("def", retention_ms=HOUR_MS)
    def in_thread(ctx: JobContext) -> None:
        with pytest.raises(InvalidRequest) as refused:
            ctx.spawn(nothing())
        texts.append(refused.value.message)

    jobs = [await on_loop.enqueue(), await in_thread.enqueue()]
    start_worker()
    for job in jobs:
        await reaches(observer, job.id, "completed")
    with pytest.raises(InvalidRequest, match="has ended"):
        contexts[0].spawn(nothing())
    with pytest.raises(LeaseLost):
        await contexts[0].progress(1, 2)
    assert texts == ["only an `async` handler can start tasks"]
