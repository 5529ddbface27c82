"""Where handlers run, what they are given, and what becomes of their errors."""

import asyncio
import json
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Annotated, Any

import pydantic
import pytest

from headgate import (
    BatchJob,
    Data,
    Death,
    Depends,
    Envelope,
    Headgate,
    InvalidRequest,
    JobContext,
    RegistrationError,
    Skip,
    Snooze,
    Store,
    Worker,
    WorkerConfig,
)
from tests.store.rows import Observer, job_row, now_ms
from tests.worker.conftest import QUICK, StartWorker
from tests.worker.waiting import eventually, reaches

HOUR_MS = 3_600_000


async def ended(observer: Observer, job_id: str, state: str) -> dict[str, Any]:
    await reaches(observer, job_id, state)
    row = await job_row(observer, job_id)
    assert row is not None
    return {**row, "errors": json.loads(row["errors"])}


class Pool:
    def __init__(self) -> None:
        self.log: list[str] = []


@pytest.mark.parametrize("threaded", [False, True])
async def test_parameters_are_filled_by_their_annotations(
    app: Headgate, start_worker: StartWorker, observer: Observer, threaded: bool
) -> None:
    pool = Pool()
    app.provide(pool)

    def tenant(ctx: JobContext) -> str:
        return ctx.headers["tenant"]

    async def session(ctx: JobContext) -> AsyncIterator[str]:
        pool.log.append("open")
        try:
            yield f"session of {ctx.kind}"
        except ValueError:
            pool.log.append("rolled back")
            raise
        finally:
            pool.log.append("closed")

    def cursor() -> Iterator[int]:
        assert threading.current_thread() is not threading.main_thread()
        yield 7

    def body(order: int, given: Pool, name: str, opened: str, number: int) -> None:
        given.log.append(f"{order} {name} {opened} {number}")
        if order == 2:
            raise ValueError("no")

    @app.task("async", retention_ms=HOUR_MS)
    async def on_loop(
        ctx: JobContext,
        order: int,
        given: Annotated[Pool, Data()],
        name: Annotated[str, Depends(tenant)],
        opened: Annotated[str, Depends(session)],
        number: Annotated[int, Depends(cursor)],
    ) -> None:
        body(order, given, name, opened, number)

    @app.task("def", retention_ms=HOUR_MS)
    def in_thread(
        order: int,
        *,
        given: Annotated[Pool, Data()],
        name: Annotated[str, Depends(tenant)],
        opened: Annotated[str, Depends(session)],
        number: Annotated[int, Depends(cursor)],
    ) -> None:
        body(order, given, name, opened, number)

    task: Any = in_thread if threaded else on_loop
    start_worker(concurrency=1)
    job = await task.enqueue(1, headers={"tenant": "ada"})
    await reaches(observer, job.id, "completed")
    failing = await task.enqueue(2, headers={"tenant": "ada"})
    await reaches(observer, failing.id, "retryable")
    without = await task.enqueue(3)
    row = await ended(observer, without.id, "retryable")
    kind = "def" if threaded else "async"
    assert pool.log == [
        "open",
        f"1 ada session of {kind} 7",
        "closed",
        "open",
        f"2 ada session of {kind} 7",
        "rolled back",
        "closed",
    ]
    assert row["errors"][0]["error"].startswith("KeyError: 'tenant'")


async def test_what_nobody_provides_is_told_at_the_start(app: Headgate, store: Store) -> None:
    @app.task("job")
    async def job(pool: Annotated[Pool, Data()]) -> None: ...

    with pytest.raises(RegistrationError, match="nothing is provided for the parameter pool"):
        await Worker(app, store, WorkerConfig(**QUICK)).run()


async def test_a_lifespan_stands_around_the_worker(store: Store, observer: Observer) -> None:
    log: list[str] = []

    @asynccontextmanager
    async def lifespan(app: Headgate) -> AsyncIterator[None]:
        log.append("begin")
        app.provide(Pool())
        yield
        log.append("end")

    app = Headgate(lifespan=lifespan)
    app.bind(store)

    @app.task("job", retention_ms=HOUR_MS)
    async def job(pool: Annotated[Pool, Data()]) -> None:
        log.append("job")

    enqueued = await job.enqueue()
    worker = Worker(app, store, WorkerConfig(**QUICK))
    running = asyncio.create_task(worker.run())
    await reaches(observer, enqueued.id, "completed")
    worker.shutdown()
    await running
    assert log == ["begin", "job", "end"]


async def test_middleware_stands_around_handlers_of_every_kind(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    log: list[str] = []

    @app.handler_middleware
    async def outer(ctx: JobContext, call_next: Any) -> Any:
        log.append(f"outer {ctx.kind}")
        try:
            return await call_next()
        except ValueError as error:
            raise Skip(f"outer saw {error}") from None

    @app.handler_middleware
    async def inner(ctx: JobContext, call_next: Any) -> Any:
        log.append("inner")
        return {"wrapped": await call_next()}

    @app.task("loop", retention_ms=HOUR_MS)
    async def on_loop() -> int:
        return 1

    @app.task("thread", retention_ms=HOUR_MS)
    def in_thread() -> int:
        return 2

    @app.batch_task("batch", max_size=1, retention_ms=HOUR_MS)
    async def batch(jobs: list[BatchJob[None]]) -> list[int]:
        return [3 for _ in jobs]

    @app.task("fails", retention_ms=HOUR_MS)
    async def fails() -> None:
        raise ValueError("no")

    start_worker(concurrency=1)
    for number, task in enumerate((on_loop, in_thread, batch), start=1):
        job = await app.enqueue(task.job())
        row = await ended(observer, job.id, "completed")
        assert json.loads(row["result_bytes"]) == {"wrapped": number}
    job = await fails.enqueue()
    assert (await ended(observer, job.id, "archived"))["errors"][0]["error"] == "outer saw no"
    kinds = ("loop", "thread", "batch", "fails")
    assert log == [entry for kind in kinds for entry in (f"outer {kind}", "inner")]


class Order(pydantic.BaseModel):
    number: int
    sent: timedelta = timedelta(seconds=5)


async def test_a_model_of_pydantic_is_a_payload(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    seen: list[Order] = []

    @app.task("order", retention_ms=HOUR_MS)
    async def order(payload: Order) -> None:
        seen.append(payload)

    jobs = [await order.enqueue(Order(number=1)), await order.enqueue({"number": 2})]
    broken = await app.enqueue(Envelope(kind="order", payload=b'{"number":"x"}'))
    with pytest.raises(InvalidRequest, match="payload of order: 1 validation error"):
        order.job({"number": "x"})
    start_worker()
    for job in jobs:
        await reaches(observer, job.id, "completed")
    await reaches(observer, broken.id, "undecodable")
    assert sorted(payload.number for payload in seen) == [1, 2]


async def test_an_error_that_is_no_failure_costs_no_attempt(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    @app.task("job", is_failure=lambda error: not isinstance(error, ConnectionError))
    async def job(kind: str) -> None:
        raise ConnectionError if kind == "away" else ValueError

    away, wrong = await job.enqueue("away"), await job.enqueue("wrong")
    start_worker()
    row = await ended(observer, away.id, "scheduled")
    assert (row["attempt"], row["errors"]) == (0, [])
    assert row["scheduled_at_ms"] - row["claimed_at_ms"] > 0 if row["claimed_at_ms"] else True
    assert (await ended(observer, wrong.id, "retryable"))["attempt"] == 1


@pytest.mark.parametrize("broken", [False, True])
async def test_a_policy_says_when_to_try_again(
    app: Headgate, start_worker: StartWorker, observer: Observer, broken: bool
) -> None:
    def policy(ctx: JobContext, error: Exception) -> timedelta | None:
        if broken:
            raise RuntimeError("a broken policy harms nobody")
        return timedelta(hours=1 + ctx.attempt) if isinstance(error, ValueError) else None

    @app.task("job", retry_policy=policy)
    async def job() -> None:
        raise ValueError("no")

    enqueued = await job.enqueue()
    start_worker()
    row = await ended(observer, enqueued.id, "retryable")
    waits = row["scheduled_at_ms"] - await now_ms(observer)
    assert (waits > HOUR_MS - 60_000) is not broken


async def test_deaths_are_told_once_each_with_their_reason(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    told: list[tuple[str, str, int]] = []

    @app.on_death
    def fails(death: Death) -> None:
        raise RuntimeError("not this one")

    @app.on_death
    async def note(death: Death) -> None:
        told.append((death.job_id, death.reason, death.attempt))

    @app.task("job", max_attempts=2)
    async def job(how: str) -> None:
        if how == "skip":
            raise Skip("enough")
        if how == "snooze":
            raise Snooze(delay_ms=HOUR_MS)
        raise ValueError("no")

    start_worker(duties=True)
    failing = await job.enqueue("fail")
    skipped = await job.enqueue("skip")
    late = await job.enqueue("late", deadline_ms=1)
    snoozed = await job.enqueue("snooze")
    for enqueued in (failing, skipped, late):
        await reaches(observer, enqueued.id, "archived")
    await reaches(observer, snoozed.id, "scheduled")
    await eventually(lambda: len(told) == 3)
    assert sorted(told) == sorted(
        [
            (failing.id, "attempts_exhausted", 2),
            (skipped.id, "skipped", 0),
            (late.id, "deadline_exceeded", 0),
        ]
    )


async def test_a_batch_runs_when_it_is_full_or_old_enough(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    sizes: list[int] = []

    @app.batch_task("index", max_size=3, max_delay_ms=100, retention_ms=HOUR_MS)
    async def index(jobs: list[BatchJob[int]]) -> list[Any]:
        sizes.append(len(jobs))
        for job in jobs:
            job.context.log(f"with {len(jobs)}")
        return [job.payload * 2 for job in jobs]

    jobs = await app.enqueue_many([index.job(number) for number in range(4)])
    start_worker()
    for number, job in enumerate(jobs):
        row = await ended(observer, job.id, "completed")
        assert row["result_bytes"] == str(number * 2).encode()
        assert row["errors"][0]["logs"][0].startswith("with ")
    assert sorted(sizes) == [1, 3]


async def test_each_job_of_a_batch_ends_in_its_own_way(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    @app.batch_task("index", max_size=4, max_delay_ms=10_000, retention_ms=HOUR_MS)
    async def index(jobs: list[BatchJob[str]]) -> list[Any]:
        ends = {
            "fails": ValueError("no"),
            "skips": Skip("enough"),
            "later": Snooze(delay_ms=HOUR_MS),
        }
        return [ends.get(job.payload) for job in jobs]

    states = {"fails": "retryable", "skips": "archived", "later": "scheduled", "fine": "completed"}
    jobs = await app.enqueue_many([index.job(name) for name in states])
    start_worker()
    for job, (name, state) in zip(jobs, states.items(), strict=True):
        row = await ended(observer, job.id, state)
        if name == "fails":
            assert row["errors"][0]["error"].startswith("ValueError: no")


@pytest.mark.parametrize("how", ["raises", "short", "returns nothing"])
async def test_a_batch_that_fails_as_a_whole(
    app: Headgate, start_worker: StartWorker, observer: Observer, how: str
) -> None:
    @app.batch_task("index", max_size=2, max_delay_ms=10_000, retention_ms=HOUR_MS)
    async def index(jobs: list[BatchJob[int]]) -> list[Any] | None:
        if how == "raises":
            raise ValueError("all of them")
        return [None] if how == "short" else None

    jobs = await app.enqueue_many([index.job(number) for number in range(2)])
    start_worker()
    for job in jobs:
        if how == "returns nothing":
            await reaches(observer, job.id, "completed")
            continue
        row = await ended(observer, job.id, "retryable")
        text = "ValueError: all of them" if how == "raises" else "1 answers for 2 jobs"
        assert text in row["errors"][0]["error"]


async def test_a_job_that_is_stopped_is_withdrawn_from_its_batch(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    seen: list[list[str]] = []

    @app.batch_task("index", max_size=2, max_delay_ms=10_000, retention_ms=HOUR_MS)
    async def index(jobs: list[BatchJob[str]]) -> None:
        seen.append([job.payload for job in jobs])

    start_worker()
    stopped = await index.enqueue("stopped", timeout_ms=50)
    row = await ended(observer, stopped.id, "retryable")
    assert row["errors"][0]["error"] == "attempt timed out after 50 ms"
    jobs = await app.enqueue_many([index.job("a"), index.job("b")])
    for job in jobs:
        await reaches(observer, job.id, "completed")
    assert [sorted(names) for names in seen] == [["a", "b"]]


def test_a_batch_handler_of_another_shape_is_refused(app: Headgate) -> None:
    async def plain(jobs: list[int]) -> None: ...
    def threaded(jobs: list[BatchJob[int]]) -> None: ...

    for handler in (plain, threaded):
        with pytest.raises(RegistrationError, match="is an `async def` of one"):
            app.batch_task("a")(handler)  # type: ignore[arg-type]  # that is the case


SCRIPT = """
import base64, json, os, sys, time
job = json.load(sys.stdin)
how = json.loads(base64.b64decode(job["payload_base64"]))
names = sorted(name for name in os.environ if name != "LC_CTYPE")
print("attempt", job["attempt"], "of", job["kind"], names)
print('HEADGATE/1 {"version":1,"outcome":"revoke"}')
endings = {
    "fine": '{"version":1,"outcome":"success"}',
    "skip": '{"version":1,"outcome":"skip","error":"a\\\\u0000b"}',
    "snooze": '{"version":1,"outcome":"snooze","delay_ms":3600000}',
    "never": '{"version":1,"outcome":"snooze"}',
    "other": '{"version":2,"outcome":"success"}',
    "odd": '{"version":1,"outcome":"odd"}',
}
if how == "loud":
    print("x" * 100_000)
if how == "dies":
    sys.exit("broken")
if how == "slow":
    time.sleep(60)
if how in endings:
    print("HEADGATE/1 " + endings[how])
"""


@pytest.mark.parametrize(
    ("how", "state", "text"),
    [
        ("fine", "completed", None),
        ("skip", "archived", "ab"),
        ("snooze", "scheduled", None),
        ("never", "retryable", "snooze needs a delay_ms"),
        ("other", "retryable", "the command speaks version 2, not 1"),
        ("odd", "retryable", "the command's last line is no ending"),
        ("loud", "retryable", "the command printed more than 65536 bytes"),
        ("dies", "retryable", "the command ended with status 1: broken"),
        ("slow", "retryable", "attempt timed out after 1000 ms"),
    ],
)
async def test_a_command_runs_a_job(
    app: Headgate,
    start_worker: StartWorker,
    observer: Observer,
    how: str,
    state: str,
    text: str | None,
) -> None:
    task = app.isolated(
        "run", [sys.executable, "-c", SCRIPT], env={"ONLY": "this"}, retention_ms=HOUR_MS
    )
    options: dict[str, Any] = {"timeout_ms": 1_000} if how == "slow" else {}
    job = await task.enqueue(how, **options)
    start_worker()
    row = await ended(observer, job.id, state)
    if how == "fine":
        assert row["errors"][0]["logs"] == ["attempt 0 of run ['ONLY']"]
    if text is not None:
        assert text in row["errors"][0]["error"]


async def test_a_command_that_is_not_there_fails_the_attempt(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    task = app.isolated("run", ["/nowhere/at/all"])
    job = await task.enqueue()
    start_worker()
    row = await ended(observer, job.id, "retryable")
    assert "No such file or directory" in row["errors"][0]["error"]
    for argv in ([], "ls -l", ["a\0b"]):
        with pytest.raises(RegistrationError):
            app.isolated("other", argv)
