"""Steps: done once, however many attempts a job takes, and never under a lease that is lost."""

import json
import threading
from typing import Any

import pytest

from headgate import Headgate, InvalidRequest, JobContext, LeaseLost, Store
from headgate.model.artifacts import Steps
from tests.store.rows import Observer, job_row
from tests.worker.conftest import StartWorker
from tests.worker.test_leases import STEAL
from tests.worker.waiting import eventually, reaches

HOUR_MS = 3_600_000


async def last_error(observer: Observer, job_id: str) -> str:
    row = await job_row(observer, job_id)
    assert row is not None
    error: str = json.loads(row["errors"])[-1]["error"]
    return error


async def checkpoint(observer: Observer, job_id: str) -> tuple[dict[str, Any], bytes | None]:
    row = await job_row(observer, job_id)
    assert row is not None
    return json.loads(row["checkpoint"]), row["cp_cursor"]


@pytest.mark.parametrize("threaded", [False, True])
async def test_a_later_attempt_passes_over_what_is_done(
    app: Headgate, start_worker: StartWorker, observer: Observer, threaded: bool
) -> None:
    done: list[str] = []
    answers: list[bool] = []

    def charge(attempt: int) -> None:
        if attempt == 0:
            raise ValueError("card declined")
        done.append("charge")

    @app.task("async", retention_ms=HOUR_MS)
    async def on_loop(ctx: JobContext) -> None:
        answers.append(await ctx.step("download", done.append, "download"))
        answers.append(await ctx.step("charge", charge, ctx.attempt))
        answers.append(await ctx.step("mail", done.append, "mail"))

    @app.task("def", retention_ms=HOUR_MS)
    def in_thread(ctx: JobContext) -> None:
        answers.append(ctx.blocking.step("download", done.append, "download"))
        answers.append(ctx.blocking.step("charge", charge, ctx.attempt))
        answers.append(ctx.blocking.step("mail", done.append, "mail"))

    job = await (in_thread if threaded else on_loop).enqueue()
    start_worker(duties=True)
    await reaches(observer, job.id, "completed")
    assert done == ["download", "charge", "mail"]
    assert answers == [True, False, True, True]


async def test_a_step_is_written_down_before_it_begins_and_after_it_ends(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    seen: list[dict[str, Any]] = []

    async def look(job_id: str) -> None:
        seen.append((await checkpoint(observer, job_id))[0])

    @app.task("job", version=3, retention_ms=HOUR_MS)
    async def job(ctx: JobContext) -> None:
        await ctx.step("one", look, ctx.id)
        await look(ctx.id)
        await ctx.step("two", look, ctx.id)

    enqueued = await job.enqueue()
    start_worker()
    await reaches(observer, enqueued.id, "completed")
    steps = [(entry.get("completed", []), entry.get("in_progress")) for entry in seen]
    assert steps == [([], "one"), (["one"], None), (["one"], "two")]
    assert {entry["version"] for entry in seen} == {3}


@pytest.mark.parametrize("threaded", [False, True])
async def test_a_step_goes_on_at_its_cursor(
    app: Headgate, start_worker: StartWorker, observer: Observer, threaded: bool
) -> None:
    pages: list[int] = []

    @app.task("async", retention_ms=HOUR_MS)
    async def on_loop(ctx: JobContext) -> None:
        async def walk(cursor: int | None) -> None:
            for page in range(cursor or 0, 6):
                if page == 3 and ctx.attempt == 0:
                    raise OSError("connection lost")
                pages.append(page)
                await ctx.set_cursor(page + 1)

        await ctx.cursor_step("pages", walk, type=int)
        await ctx.step("after", lambda: None)

    @app.task("def", retention_ms=HOUR_MS)
    def in_thread(ctx: JobContext) -> None:
        def walk(cursor: int | None) -> None:
            for page in range(cursor or 0, 6):
                if page == 3 and ctx.attempt == 0:
                    raise OSError("connection lost")
                pages.append(page)
                ctx.blocking.set_cursor(page + 1)

        ctx.blocking.cursor_step("pages", walk, type=int)

    job = await (in_thread if threaded else on_loop).enqueue()
    start_worker(duties=True)
    await reaches(observer, job.id, "completed")
    assert pages == [0, 1, 2, 3, 4, 5]
    assert (await checkpoint(observer, job.id))[1] is None


async def test_after_a_lost_lease_no_step_begins(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    done: list[str] = []

    @app.task("job")
    async def job(ctx: JobContext) -> None:
        await ctx.step("one", done.append, "one")
        await observer.execute(STEAL, ctx.id)
        try:
            await ctx.step("two", done.append, "two")
        except Exception:
            done.append("swallowed")
        except LeaseLost:
            done.append("lost")
            raise

    await job.enqueue()
    worker = start_worker(lease_ms=60_000)
    await eventually(lambda: done == ["one", "lost"] and worker.held == 0)


async def test_a_thread_that_was_told_to_stop_begins_no_step(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    outcome: list[str] = []

    @app.task("job", timeout_ms=50)
    def job(ctx: JobContext) -> None:
        waiting = threading.Event()
        while not ctx.stopped:
            waiting.wait(0.005)
        try:
            ctx.blocking.step("late", outcome.append, "late")
        except LeaseLost:
            outcome.append("refused")
            raise

    enqueued = await job.enqueue()
    start_worker()
    await reaches(observer, enqueued.id, "retryable")
    assert outcome == ["refused"]
    assert await last_error(observer, enqueued.id) == "attempt timed out after 50 ms"


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        (["a", "a"], "step `a` begins a second time"),
        (["a(b)"], "step `b` begins inside of step `a`"),
        (["a!", "b"], "step `b` begins after step `a` has failed"),
    ],
)
async def test_steps_that_could_not_be_resumed_are_refused(
    app: Headgate, start_worker: StartWorker, observer: Observer, steps: list[str], text: str
) -> None:
    @app.task("job", max_attempts=1)
    async def job(ctx: JobContext) -> None:
        for step in steps:
            if step == "a(b)":
                await ctx.step("a", ctx.step, "b", lambda: None)
            elif step == "a!":
                with pytest.raises(ZeroDivisionError):
                    await ctx.step("a", lambda: 1 / 0)
            else:
                await ctx.step(step, lambda: None)

    enqueued = await job.enqueue()
    start_worker()
    await reaches(observer, enqueued.id, "archived")
    assert text in await last_error(observer, enqueued.id)


async def test_a_cursor_belongs_to_a_step(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    texts: list[str] = []

    @app.task("job", retention_ms=HOUR_MS)
    async def job(ctx: JobContext) -> None:
        with pytest.raises(InvalidRequest) as outside:
            await ctx.set_cursor(1)
        texts.append(str(outside.value))
        with pytest.raises(InvalidRequest) as strange:
            await ctx.step("a", ctx.set_cursor, object())
        texts.append(str(strange.value))

    enqueued = await job.enqueue()
    start_worker()
    await reaches(observer, enqueued.id, "completed")
    assert "belongs to a step" in texts[0]
    assert "cursor is not encodable" in texts[1]


async def leave_steps(
    store: Store, app: Headgate, observer: Observer, steps: Steps, kind: str = "job"
) -> str:
    """A job whose earlier attempt has come this far."""
    job = await app.tasks[kind].enqueue()
    (claim,) = await store.gate.admit("earlier", ["default"], 1, 60_000)
    await store.artifacts.write_checkpoint(claim.lease, steps)
    await observer.execute(
        "UPDATE headgate_job SET lease_expires_at_ms = 0 WHERE ulid = $1", job.id
    )
    await store.upkeep.reclaim_expired(10)
    await observer.execute("UPDATE headgate_job SET scheduled_at_ms = 0")
    await store.upkeep.promote_due(10)
    return job.id


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        (Steps(completed_steps=["old"]), "step 1 was `old` and is now `new`"),
        (Steps(completed_steps=["old"], schema_version=1), "step 1 was `old` and is now `new`"),
        (
            Steps(in_progress_step="new", cursor_step="new", cursor=b'"x"'),
            "the cursor of step `new` is no cursor",
        ),
    ],
)
async def test_other_steps_than_before_are_undecodable_and_never_begin_anew(
    app: Headgate,
    store: Store,
    start_worker: StartWorker,
    observer: Observer,
    steps: Steps,
    text: str,
) -> None:
    done: list[object] = []

    @app.task("job", version=2, retention_ms=HOUR_MS)
    async def job(ctx: JobContext) -> None:
        try:
            await ctx.cursor_step("new", done.append, type=int)
        except Exception:
            done.append("swallowed")

    job_id = await leave_steps(store, app, observer, steps)
    start_worker()
    await reaches(observer, job_id, "undecodable")
    assert text in await last_error(observer, job_id)
    assert done == []


async def test_steps_of_an_older_version_may_have_other_names(
    app: Headgate, store: Store, start_worker: StartWorker, observer: Observer
) -> None:
    done: list[str] = []

    @app.task("job", version=2, retention_ms=HOUR_MS)
    async def job(ctx: JobContext) -> None:
        await ctx.step("fetch", done.append, "fetch")
        await ctx.step("store", done.append, "store")

    @job.migrate_steps(1)
    def from_one(completed: list[str]) -> list[str]:
        return ["fetch" if name == "download" else name for name in completed]

    steps = Steps(completed_steps=["download"], schema_version=1)
    job_id = await leave_steps(store, app, observer, steps)
    start_worker()
    await reaches(observer, job_id, "completed")
    assert done == ["store"]


async def test_a_crash_inside_of_a_step_resumes_there(
    app: Headgate, store: Store, start_worker: StartWorker, observer: Observer
) -> None:
    done: list[object] = []

    @app.task("job", retention_ms=HOUR_MS)
    async def job(ctx: JobContext) -> None:
        await ctx.step("one", done.append, "one")
        await ctx.cursor_step("two", done.append, type=int)

    steps = Steps(completed_steps=["one"], in_progress_step="two", cursor_step="two", cursor=b"7")
    job_id = await leave_steps(store, app, observer, steps)
    start_worker()
    await reaches(observer, job_id, "completed")
    assert done == [7]
    row = await job_row(observer, job_id)
    assert row is not None
    assert json.loads(row["checkpoint"])["crashes"] == {"two": 1}
