"""How an attempt can end, and what is left of it in the database."""

import asyncio
import json
from typing import Any

import msgspec
import pytest

from headgate import (
    Envelope,
    Headgate,
    JobContext,
    RateLimited,
    Retry,
    Revoke,
    Skip,
    Snooze,
)
from tests.store.rows import Observer, job_row, now_ms
from tests.worker.conftest import StartWorker
from tests.worker.waiting import eventually, reaches

HOUR_MS = 3_600_000


class Mail(msgspec.Struct):
    to: str


async def ended(observer: Observer, job_id: str, state: str) -> dict[str, Any]:
    """The row of the job once it is in `state`; its lease is given back."""
    await reaches(observer, job_id, state)
    row = await job_row(observer, job_id)
    assert row is not None
    assert (row["lease_id"], row["claimed_by"]) == (None, None)
    return {**row, "errors": json.loads(row["errors"])}


async def test_a_handler_gets_its_payload_and_its_context(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    seen: list[Any] = []

    @app.task("mail", retention_ms=HOUR_MS, aliases=["email"])
    async def mail(ctx: JobContext, payload: Mail) -> None:
        seen.append((ctx.id, ctx.kind, ctx.attempt, ctx.headers["h"], ctx.lease.fence, payload))

    job = await mail.enqueue(Mail("a@b"), headers={"h": "v"})
    other = await app.enqueue(
        Envelope(kind="email", payload=b'{"to":"c@d"}', headers={"h": "w"}, retention_ms=HOUR_MS)
    )
    start_worker()
    row = await ended(observer, job.id, "completed")
    await ended(observer, other.id, "completed")
    assert (row["attempt"], row["crash_attempt"], row["errors"]) == (0, 0, [])
    assert sorted(seen, key=lambda each: str(each[1])) == [
        (other.id, "email", 0, "w", 1, Mail("c@d")),
        (job.id, "mail", 0, "v", 1, Mail("a@b")),
    ]


async def test_success_without_retention_leaves_nothing(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    @app.task("once")
    async def once() -> None: ...

    job = await once.enqueue()
    start_worker()
    await reaches(observer, job.id, None)


async def test_what_a_handler_returns_or_sets_is_the_result(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    @app.task("returns", retention_ms=HOUR_MS)
    async def returns() -> dict[str, str]:
        return {"x": "\0"}

    @app.task("sets", retention_ms=HOUR_MS)
    def sets(ctx: JobContext) -> None:
        ctx.set_result(b"\0\xff", schema_version=3)
        ctx.log("done\0")

    returned = await returns.enqueue()
    was_set = await sets.enqueue()
    start_worker()
    row = await ended(observer, returned.id, "completed")
    assert (row["result_schema_version"], row["result_bytes"]) == (1, b'{"x":"\\u0000"}')
    row = await ended(observer, was_set.id, "completed")
    assert (row["result_schema_version"], row["result_bytes"]) == (3, b"\0\xff")
    assert row["errors"][0]["logs"] == ["done"]


async def test_a_failure_is_retried_until_the_attempts_are_spent(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    attempts: list[int] = []

    @app.task("fails", max_attempts=2)
    async def fails(ctx: JobContext) -> None:
        attempts.append(ctx.attempt)
        ctx.log(f"try {ctx.attempt}")
        raise ValueError("no")

    job = await fails.enqueue()
    start_worker(duties=True)
    row = await ended(observer, job.id, "archived")
    assert attempts == [0, 1]
    assert (row["attempt"], row["crash_attempt"]) == (2, 0)
    assert [entry["logs"] for entry in row["errors"]] == [["try 0"], ["try 1"]]
    assert row["errors"][0]["error"].startswith("ValueError: no\n")
    assert "in fails" in row["errors"][0]["error"]


async def test_bc_37_retry_after_counts_attempts(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    @app.task("fails", max_attempts=2)
    async def fails() -> None:
        raise Retry("busy", after_ms=1_000)

    job = await fails.enqueue()
    start_worker(duties=True)
    await reaches(observer, job.id, "retryable")
    waiting = await job_row(observer, job.id)
    assert waiting is not None
    assert 0 < waiting["scheduled_at_ms"] - await now_ms(observer) <= 1_000
    row = await ended(observer, job.id, "archived")
    assert [entry["error"] for entry in row["errors"]] == ["busy", "busy"]


@pytest.mark.parametrize("how", ["raise", "return"])
async def test_outcomes_are_raised_or_returned(
    app: Headgate, start_worker: StartWorker, observer: Observer, how: str
) -> None:
    outcomes = {
        "skips": Skip("not today"),
        "revokes": Revoke(),
        "snoozes": Snooze(delay_ms=HOUR_MS),
        "waits": RateLimited(after_ms=HOUR_MS),
        "retries": Retry("once more"),
    }

    @app.task("ends")
    async def ends(name: str) -> Any:
        if how == "raise":
            try:
                raise outcomes[name]
            except Exception:
                return None
        return outcomes[name]

    jobs = {name: (await ends.enqueue(name)).id for name in outcomes}
    start_worker()
    skipped = await ended(observer, jobs["skips"], "archived")
    assert (skipped["attempt"], skipped["errors"][0]["error"]) == (0, "not today")
    await reaches(observer, jobs["revokes"], None)
    for name in ("snoozes", "waits"):
        row = await ended(observer, jobs[name], "scheduled")
        assert (row["attempt"], row["crash_attempt"], row["errors"]) == (0, 0, [])
        assert HOUR_MS - 60_000 < row["scheduled_at_ms"] - await now_ms(observer) <= HOUR_MS
    retried = await ended(observer, jobs["retries"], "retryable")
    assert (retried["attempt"], retried["errors"][0]["error"]) == (1, "once more")


async def test_an_outcome_counts_from_inside_a_task_group(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    @app.task("groups")
    async def groups() -> None:
        async def child() -> None:
            raise Skip("from below")

        async with asyncio.TaskGroup() as group:
            group.create_task(child())

    job = await groups.enqueue()
    start_worker()
    row = await ended(observer, job.id, "archived")
    assert row["errors"][0]["error"] == "from below"


async def test_payloads_that_cannot_be_decoded_are_not_retried(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    @app.task("mail")
    async def mail(payload: Mail) -> None: ...

    broken = await app.enqueue(Envelope(kind="mail", payload=b"{"))
    newer = await app.enqueue(Envelope(kind="mail", payload=b'{"to":"a"}', schema_version=7))
    start_worker()
    row = await ended(observer, broken.id, "undecodable")
    assert (row["attempt"], row["errors"][0]["error"][:8]) == (0, "payload:")
    row = await ended(observer, newer.id, "undecodable")
    assert "schema version 7 is unknown, the handler has 1" in row["errors"][0]["error"]


async def test_jobs_of_an_unknown_kind_wait(
    app: Headgate,
    start_worker: StartWorker,
    observer: Observer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    jobs = [(await app.enqueue(Envelope(kind="nobody"))).id for _ in range(3)]
    start_worker()
    for job_id in jobs:
        row = await ended(observer, job_id, "scheduled")
        assert (row["attempt"], row["crash_attempt"]) == (0, 0)
        assert 20_000 < row["scheduled_at_ms"] - await now_ms(observer) <= 30_000
    warnings = [r for r in caplog.records if "no handler registered" in r.getMessage()]
    assert len(warnings) == 1


@pytest.mark.parametrize("threaded", [False, True])
@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), RecursionError("deep"), MemoryError()]
)
async def test_nothing_that_a_handler_raises_ends_the_worker(
    app: Headgate,
    start_worker: StartWorker,
    observer: Observer,
    error: BaseException,
    threaded: bool,
) -> None:
    @app.task("async")
    async def on_loop() -> None:
        raise error

    @app.task("def")
    def in_thread() -> None:
        raise error

    job = await (in_thread if threaded else on_loop).enqueue()
    start_worker()
    row = await ended(observer, job.id, "retryable")
    assert (row["attempt"], row["crash_attempt"]) == (1, 0)
    assert row["errors"][0]["error"].startswith(f"panic: {type(error).__name__}")


@pytest.mark.parametrize("threaded", [False, True])
async def test_bc_56_texts_of_any_shape_reach_the_history(
    app: Headgate, start_worker: StartWorker, observer: Observer, threaded: bool
) -> None:
    texts = {"nul": "a\0b", "huge": "x" * 2_000_000, "surrogate": "\ud83d"}

    @app.task("async")
    async def on_loop(name: str) -> None:
        raise ValueError(texts[name])

    @app.task("def")
    def in_thread(name: str) -> None:
        raise ValueError(texts[name])

    @app.task("next")
    async def after() -> None: ...

    task = in_thread if threaded else on_loop
    jobs = {name: (await task.enqueue(name)).id for name in texts}
    last = await after.enqueue()
    start_worker()
    errors = {}
    for name, job_id in jobs.items():
        row = await ended(observer, job_id, "retryable")
        errors[name] = row["errors"][0]["error"]
    assert errors["nul"].splitlines()[0] == "ValueError: ab"
    assert errors["surrogate"].splitlines()[0] == "ValueError: \ufffd"
    assert len(errors["huge"].encode()) <= 16_384
    await reaches(observer, last.id, None)


async def test_bc_109_a_result_that_cannot_be_kept_is_a_failed_attempt(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    @app.task("unserialisable", max_attempts=1)
    async def unserialisable() -> object:
        return object()

    @app.task("huge", max_attempts=1)
    async def huge() -> bytes:
        return b"x" * (32 * 1_048_576 + 1)

    jobs = [(await unserialisable.enqueue()).id, (await huge.enqueue()).id]
    start_worker()
    texts = [(await ended(observer, job_id, "archived"))["errors"][0]["error"] for job_id in jobs]
    assert "result is not encodable" in texts[0]
    assert "result must be at most 33554432 bytes" in texts[1]


async def test_handlers_enqueue_through_their_own_application(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    children: list[int] = []

    @app.task("child")
    async def child(number: int) -> None:
        children.append(number)

    @app.task("parent")
    async def parent() -> None:
        await app.enqueue_many([child.job(number) for number in range(3)])

    await parent.enqueue()
    start_worker()
    await eventually(lambda: sorted(children) == [0, 1, 2])
