"""Effects in one transaction with the end of a job or a step: there once, or not at all."""

import asyncio
import json
from typing import Any

import asyncpg
import pytest

from headgate import Headgate, JobContext, LeaseLost
from headgate.store.effects import claim, job_key
from headgate.store.foreign import converse
from tests.store.rows import Observer, job_row, state_of
from tests.store.transactions import (
    ASYNC,
    BLOCKING,
    BlockingTransaction,
    Transaction,
    charge,
    charge_blocking,
    raw,
)
from tests.worker.conftest import StartWorker
from tests.worker.test_leases import STEAL
from tests.worker.waiting import eventually, reaches

HOUR_MS = 3_600_000


@pytest.fixture(autouse=True)
async def charges(observer: Observer) -> None:
    await observer.execute("CREATE TABLE charge (id bigint GENERATED ALWAYS AS IDENTITY)")


async def count(observer: Observer) -> int:
    charged: int = await observer.fetchval("SELECT count(*) FROM charge")
    return charged


async def effects(observer: Observer) -> list[str]:
    return [
        row["key"] for row in await observer.fetch("SELECT key FROM headgate_effect ORDER BY 1")
    ]


async def last_error(observer: Observer, job_id: str) -> str:
    row = await job_row(observer, job_id)
    assert row is not None
    return str(json.loads(row["errors"])[-1]["error"])


async def test_an_effect_ends_the_job_with_its_logs_and_its_result(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    async def pay(connection: Any, number: int) -> dict[str, int]:
        await charge(connection)
        return {"receipt": number}

    seen: list[Any] = []

    @app.task("pay", retention_ms=HOUR_MS)
    async def task(ctx: JobContext) -> None:
        ctx.log("paying")
        seen.append(await ctx.once(pay, 7))
        seen.append(await state_of(observer, ctx.id))

    job = await task.enqueue()
    worker = start_worker()
    await eventually(lambda: len(seen) == 2 and worker.held == 0 and worker.running == 0)
    row = await job_row(observer, job.id)
    assert row is not None
    assert (seen, row["state"], row["result_bytes"]) == (
        [True, "completed"],
        "completed",
        b'{"receipt":7}',
    )
    assert [entry["logs"] for entry in json.loads(row["errors"])] == [["paying"]]
    assert (await count(observer), await effects(observer)) == (1, [job.id])


@pytest.mark.parametrize("retention_ms", [HOUR_MS, None])
@pytest.mark.parametrize("transaction", ASYNC)
async def test_an_effect_in_a_transaction_of_the_handlers(
    app: Headgate,
    start_worker: StartWorker,
    observer: Observer,
    headgate_database: str,
    transaction: Transaction,
    retention_ms: int | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    @app.task("pay")
    async def task(ctx: JobContext) -> None:
        async with transaction(headgate_database) as connection:
            assert await ctx.once(charge, connection=connection)
            assert await count(observer) == 0

    options: dict[str, Any] = {} if retention_ms is None else {"retention_ms": retention_ms}
    job = await task.enqueue(**options)
    worker = start_worker()
    await reaches(observer, job.id, None if retention_ms is None else "completed")
    await eventually(lambda: worker.held == 0 and worker.running == 0)
    assert (await count(observer), await effects(observer)) == (1, [job.id])
    assert not [record for record in caplog.records if "lease" in record.getMessage()]


@pytest.mark.parametrize("transaction", BLOCKING)
async def test_an_effect_in_a_transaction_that_blocks(
    app: Headgate,
    start_worker: StartWorker,
    observer: Observer,
    headgate_database: str,
    transaction: BlockingTransaction,
) -> None:
    steps: list[bool] = []

    @app.task("pay", retention_ms=HOUR_MS)
    def task(ctx: JobContext) -> None:
        with transaction(headgate_database) as connection:
            steps.append(ctx.blocking.step_once("first", charge_blocking, connection=connection))
        with transaction(headgate_database) as connection:
            steps.append(ctx.blocking.once(charge_blocking, connection=connection))

    job = await task.enqueue()
    start_worker()
    await reaches(observer, job.id, "completed")
    assert steps == [True, True]
    assert (await count(observer), await effects(observer)) == (2, [job.id, f"{job.id}/first"])


@pytest.mark.parametrize("transaction", [None, *ASYNC])
async def test_a_lost_lease_rolls_everything_back(
    app: Headgate,
    start_worker: StartWorker,
    observer: Observer,
    headgate_database: str,
    transaction: Transaction | None,
) -> None:
    """The thief comes while the handler does its work, and charges by itself."""
    lost: list[bool] = []

    async def pay(connection: Any, job_id: str) -> None:
        await charge(connection)
        await observer.execute(STEAL, job_id)

    @app.task("pay")
    async def task(ctx: JobContext) -> None:
        try:
            if transaction is None:
                await ctx.once(pay, ctx.id)
            else:
                async with transaction(headgate_database) as connection:
                    await ctx.once(pay, ctx.id, connection=connection)
        except LeaseLost:
            lost.append(True)
            raise

    job = await task.enqueue()
    worker = start_worker(lease_ms=60_000)
    await eventually(lambda: bool(lost) and worker.held == 0)
    assert await state_of(observer, job.id) == "running"
    assert (await count(observer), await effects(observer)) == (0, [])


@pytest.mark.parametrize("own", [False, True])
async def test_a_failing_effect_leaves_nothing_and_is_tried_again(
    app: Headgate,
    start_worker: StartWorker,
    observer: Observer,
    headgate_database: str,
    own: bool,
) -> None:
    async def pay(connection: Any, attempt: int) -> None:
        await charge(connection)
        if attempt == 0:
            raise ValueError("card declined")

    @app.task("pay", retention_ms=HOUR_MS)
    async def task(ctx: JobContext) -> None:
        if own:
            async with raw(headgate_database) as connection:
                await ctx.once(pay, ctx.attempt, connection=connection)
        else:
            await ctx.once(pay, ctx.attempt)

    job = await task.enqueue()
    start_worker(duties=True)
    await reaches(observer, job.id, "completed")
    assert await last_error(observer, job.id)
    assert (await count(observer), await effects(observer)) == (1, [job.id])


@pytest.mark.parametrize("step", [False, True])
async def test_what_a_statement_of_the_handler_raises_is_told_as_it_is(
    app: Headgate, start_worker: StartWorker, observer: Observer, step: bool
) -> None:
    caught: list[str] = []

    async def pay(connection: Any) -> None:
        await connection.execute("INSERT INTO charge (id) VALUES (1)")

    @app.task("pay", max_attempts=1)
    async def task(ctx: JobContext) -> None:
        try:
            await (ctx.step_once("pay", pay) if step else ctx.once(pay))
        except asyncpg.GeneratedAlwaysError as error:
            caught.append(type(error).__name__)
            raise

    job = await task.enqueue()
    start_worker()
    await reaches(observer, job.id, "archived")
    assert caught == ["GeneratedAlwaysError"]
    assert (await last_error(observer, job.id)).startswith("GeneratedAlwaysError: cannot insert")


@pytest.mark.parametrize("step", [False, True])
async def test_a_transaction_that_is_never_committed_fails_the_attempt(
    app: Headgate,
    start_worker: StartWorker,
    observer: Observer,
    headgate_database: str,
    step: bool,
) -> None:
    @app.task("pay", max_attempts=1)
    async def task(ctx: JobContext) -> None:
        connection = await asyncpg.connect(headgate_database)
        transaction = connection.transaction()
        await transaction.start()
        if step:
            await ctx.step_once("charge", charge, connection=connection)
        else:
            await ctx.once(charge, connection=connection)
        await transaction.rollback()
        await connection.close()

    job = await task.enqueue()
    start_worker()
    await reaches(observer, job.id, "archived")
    assert "not committed" in await last_error(observer, job.id)
    assert (await count(observer), await effects(observer)) == (0, [])


async def test_no_step_begins_on_top_of_one_that_was_rolled_back(
    app: Headgate, start_worker: StartWorker, observer: Observer, headgate_database: str
) -> None:
    done: list[str] = []

    @app.task("pay", max_attempts=1)
    async def task(ctx: JobContext) -> None:
        try:
            async with raw(headgate_database) as connection:
                await ctx.step_once("charge", charge, connection=connection)
                raise ValueError("after all")
        except ValueError:
            await ctx.step("mail", done.append, "mail")

    job = await task.enqueue()
    start_worker()
    await reaches(observer, job.id, "archived")
    assert "the transaction of step `charge` is not committed" in await last_error(observer, job.id)
    assert (done, await count(observer)) == ([], 0)


async def test_an_error_after_the_commit_changes_nothing(
    app: Headgate, start_worker: StartWorker, observer: Observer, headgate_database: str
) -> None:
    @app.task("pay", retention_ms=HOUR_MS)
    async def task(ctx: JobContext) -> None:
        async with raw(headgate_database) as connection:
            await ctx.once(charge, connection=connection)
        raise ValueError("too late")

    job = await task.enqueue()
    worker = start_worker()
    await reaches(observer, job.id, "completed")
    await eventually(lambda: worker.held == 0 and worker.running == 0)
    row = await job_row(observer, job.id)
    assert row is not None
    assert (row["state"], row["attempt"], await count(observer)) == ("completed", 0, 1)


@pytest.mark.parametrize("own", [False, True])
async def test_a_step_is_charged_once_over_several_attempts(
    app: Headgate,
    start_worker: StartWorker,
    observer: Observer,
    headgate_database: str,
    own: bool,
) -> None:
    answers: list[bool] = []

    @app.task("pay", retention_ms=HOUR_MS)
    async def task(ctx: JobContext) -> None:
        if own:
            async with raw(headgate_database) as connection:
                answers.append(await ctx.step_once("charge", charge, connection=connection))
        else:
            answers.append(await ctx.step_once("charge", charge))
        if ctx.attempt == 0:
            raise OSError("mail server away")
        await ctx.step("mail", lambda: None)

    job = await task.enqueue()
    start_worker(duties=True)
    await reaches(observer, job.id, "completed")
    assert answers == [True, False]
    assert (await count(observer), await effects(observer)) == (1, [f"{job.id}/charge"])


async def test_an_effect_that_was_had_before_is_not_had_again(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    """The id of a job that is gone is used anew: its effect is remembered."""
    answers: list[bool] = []

    @app.task("pay")
    async def task(ctx: JobContext) -> None:
        answers.append(await ctx.once(charge))

    start_worker()
    for _ in range(2):
        await task.enqueue(id="order/7")
        await reaches(observer, "order/7", None)
    assert answers == [True, False]
    assert (await count(observer), await effects(observer)) == (1, ["order%2F7"])


async def test_jobs_and_steps_never_share_a_key(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    @app.task("pay")
    async def task(ctx: JobContext) -> None:
        if ctx.id == "a":
            await ctx.step_once("b", charge)
        else:
            await ctx.once(charge)

    start_worker()
    for job_id in ("a", "a/b", "a%2Fb"):
        await task.enqueue(id=job_id)
        await reaches(observer, job_id, None)
    assert await count(observer) == 3


async def test_two_deliveries_at_once_have_the_effect_once(
    observer: Observer, headgate_database: str
) -> None:
    async def take() -> bool:
        async with raw(headgate_database) as connection:
            first = await converse(connection, claim(job_key("j")), schema="public")
            if first:
                await charge(connection)
            return first

    assert sorted(await asyncio.gather(*(take() for _ in range(8)))) == [False] * 7 + [True]
    assert await count(observer) == 1


async def test_what_a_handler_enqueues_in_its_effect_comes_with_it(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    async def pay(connection: Any) -> None:
        await child.enqueue(id="child", connection=connection)

    @app.task("pay")
    async def task(ctx: JobContext) -> None:
        await ctx.once(pay)

    @app.task("child", retention_ms=HOUR_MS)
    async def child() -> None: ...

    await task.enqueue()
    start_worker()
    await reaches(observer, "child", "completed")


async def test_after_the_end_of_the_job_nothing_can_be_written(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    texts: list[str] = []

    @app.task("pay", retention_ms=HOUR_MS)
    async def task(ctx: JobContext) -> None:
        await ctx.once(charge)
        for write in (
            lambda: ctx.progress(1, 2),
            lambda: ctx.step("a", print),
            lambda: ctx.once(charge),
        ):
            try:
                await write()
            except Exception as error:
                texts.append(str(error))

    job = await task.enqueue()
    start_worker()
    await reaches(observer, job.id, "completed")
    await eventually(lambda: len(texts) == 3)
    assert all("ended by `once`" in text for text in texts)
