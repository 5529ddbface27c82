"""Enqueue inside a caller's transaction: one table of expectations, every kind of connection."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from headgate.model.envelope import Envelope
from headgate.model.errors import (
    Backpressure,
    DuplicateJob,
    FingerprintQuarantined,
    IdConflict,
    InvalidRequest,
    StoreError,
)
from headgate.model.job import Enqueued
from headgate.store.joining import enqueue_in, enqueue_in_sync

Enqueue = Callable[[Sequence[Envelope]], Awaitable[list[Enqueued]]]
Execute = Callable[[str], Awaitable[Any]]


class Joined:
    """A transaction of an application, on one kind of connection."""

    def __init__(self, enqueue: Enqueue, execute: Execute) -> None:
        self.enqueue = enqueue
        self.execute = execute


def url(dsn: str, driver: str) -> str:
    return make_url(dsn).set(drivername=driver).render_as_string(hide_password=False)


@asynccontextmanager
async def raw(dsn: str) -> AsyncIterator[Joined]:
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            yield Joined(
                lambda jobs: enqueue_in(connection, jobs),
                connection.execute,
            )
    finally:
        await connection.close()


@asynccontextmanager
async def pooled(dsn: str) -> AsyncIterator[Joined]:
    async with (
        asyncpg.create_pool(dsn, min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        yield Joined(lambda jobs: enqueue_in(connection, jobs), connection.execute)


@asynccontextmanager
async def core(dsn: str, driver: str = "postgresql+asyncpg") -> AsyncIterator[Joined]:
    engine = create_async_engine(url(dsn, driver))
    try:
        async with engine.begin() as connection:
            yield Joined(
                lambda jobs: enqueue_in(connection, jobs),
                lambda statement: connection.execute(text(statement)),
            )
    finally:
        await engine.dispose()


def core_psycopg(dsn: str) -> Any:
    return core(dsn, "postgresql+psycopg")


@asynccontextmanager
async def orm(dsn: str) -> AsyncIterator[Joined]:
    engine = create_async_engine(url(dsn, "postgresql+asyncpg"))
    try:
        async with AsyncSession(engine) as session, session.begin():
            yield Joined(
                lambda jobs: enqueue_in(session, jobs),
                lambda statement: session.execute(text(statement)),
            )
    finally:
        await engine.dispose()


@asynccontextmanager
async def blocking(dsn: str) -> AsyncIterator[Joined]:
    engine = create_engine(url(dsn, "postgresql+psycopg"))
    try:
        with engine.begin() as connection:
            yield Joined(
                lambda jobs: asyncio.to_thread(enqueue_in_sync, connection, jobs),
                lambda statement: asyncio.to_thread(connection.execute, text(statement)),
            )
    finally:
        engine.dispose()


@asynccontextmanager
async def blocking_orm(dsn: str) -> AsyncIterator[Joined]:
    engine = create_engine(url(dsn, "postgresql+psycopg"))
    try:
        with Session(engine) as session, session.begin():
            yield Joined(
                lambda jobs: asyncio.to_thread(enqueue_in_sync, session, jobs),
                lambda statement: asyncio.to_thread(session.execute, text(statement)),
            )
    finally:
        engine.dispose()


@pytest.fixture(params=[raw, pooled, core, core_psycopg, orm, blocking, blocking_orm])
def join(request: pytest.FixtureRequest, headgate_database: str) -> Any:
    """Begins a transaction on one kind of connection; its end commits, an exception rolls back."""
    return lambda: request.param(headgate_database)


@pytest.fixture
async def observer(headgate_database: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(headgate_database)
    yield connection
    await connection.close()


def job(**values: Any) -> Envelope:
    return Envelope(kind="mail", **values)


class Undone(Exception):
    """Rolls a transaction back."""


async def test_jobs_appear_with_the_commit_and_not_before(join: Any, observer: Any) -> None:
    async with join() as joined:
        (single,) = await joined.enqueue([job(headers={"a": "b"}, tags=("x", "y"))])
        batch = await joined.enqueue([job(partition_key=str(n % 3)) for n in range(20)])
        assert await observer.fetchval("SELECT count(*) FROM headgate_job") == 0
    assert await observer.fetchval("SELECT count(*) FROM headgate_job") == 21
    assert len({single.id, *(each.id for each in batch)}) == 21
    assert await observer.fetchval("SELECT headers::text FROM headgate_job ORDER BY id") == (
        '{"a": "b"}'
    )
    assert await observer.fetchval("SELECT count(*) FROM headgate_job_tag") == 2
    assert await observer.fetchval("SELECT count(*) FROM headgate_active_partition") == 4
    assert await observer.fetchval("SELECT sum(n) FROM headgate_ledger") == 21


async def test_a_rollback_leaves_nothing(join: Any, observer: Any) -> None:
    async def enqueue_and_fail() -> None:
        async with join() as joined:
            await joined.enqueue([job(), job()])
            raise Undone

    with pytest.raises(Undone):
        await enqueue_and_fail()
    assert await observer.fetchval("SELECT count(*) FROM headgate_job") == 0
    assert await observer.fetchval("SELECT count(*) FROM headgate_active_partition") == 0


REFUSALS: list[tuple[str, type[StoreError], list[Envelope]]] = [
    ("other content", IdConflict, [job(id="known", payload=b"other")]),
    ("other queue", IdConflict, [job(id="known", queue="elsewhere")]),
    ("quarantined", FingerprintQuarantined, [job(fingerprint="bad")]),
    ("over the limit", Backpressure, [job(queue="full")]),
    ("batch over the limit", Backpressure, [job(), job(queue="full")]),
    ("held key", DuplicateJob, [job(unique_key=b"held")]),
    ("batch with a held key", DuplicateJob, [job(), job(unique_key=b"held")]),
    ("key twice", DuplicateJob, [job(unique_key=b"k"), job(unique_key=b"k")]),
    ("malformed", InvalidRequest, [job(queue="a\0")]),
]


async def _prepare(observer: Any, enqueue: Enqueue) -> None:
    await observer.execute(
        "INSERT INTO headgate_quarantine (fingerprint, kind, crash_count, quarantined_at_ms)"
        " VALUES ('bad', 'mail', 3, 1)"
    )
    await observer.execute("INSERT INTO headgate_enqueue_policy VALUES ('full', 0)")
    await enqueue([job(id="known"), job(id="holder", unique_key=b"held")])


@pytest.mark.parametrize(
    ("expected", "jobs"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS]
)
async def test_a_refusal_is_typed_and_the_transaction_goes_on(
    join: Any, observer: Any, expected: type[StoreError], jobs: list[Envelope]
) -> None:
    async with join() as joined:
        await _prepare(observer, joined.enqueue)
        await joined.execute("CREATE TABLE application (id int)")
        with pytest.raises(expected):
            await joined.enqueue(jobs)
        await joined.execute("INSERT INTO application VALUES (1)")
        await joined.enqueue([job(id="after")])
    assert await observer.fetchval("SELECT count(*) FROM application") == 1
    ids = await observer.fetch("SELECT ulid FROM headgate_job ORDER BY id")
    assert [row["ulid"] for row in ids] == ["known", "holder", "after"]


async def test_a_replay_is_silent(join: Any, observer: Any) -> None:
    async with join() as joined:
        await joined.enqueue([job(id="one")])
        assert await joined.enqueue([job(id="one")]) == [Enqueued("one")]
        assert await joined.enqueue([job(id="one"), job(id="two")]) == [
            Enqueued("one"),
            Enqueued("two"),
        ]
    assert await observer.fetchval("SELECT count(*) FROM headgate_job") == 2


async def test_a_replaced_holder_is_kept_by_the_callers_commit(join: Any, observer: Any) -> None:
    async with join() as joined:
        await joined.enqueue([job(id="holder", unique_key=b"k", payload=b"old")])
        with pytest.raises(DuplicateJob) as refused:
            await joined.enqueue([job(unique_key=b"k", unique_replace=1, payload=b"new")])
    assert refused.value.existing_id == "holder"
    assert refused.value.replaced
    assert await observer.fetchval("SELECT payload FROM headgate_job") == b"new"


async def test_a_key_taken_meanwhile_is_a_duplicate(
    join: Any, headgate_database: str, observer: Any
) -> None:
    """The holder commits while we wait for its key; nothing we had seen spoke against us."""
    other = await asyncpg.connect(headgate_database)
    try:
        theirs = other.transaction()
        await theirs.start()
        await enqueue_in(other, [job(id="theirs", unique_key=b"k")])
        async with join() as joined:
            ours = asyncio.create_task(joined.enqueue([job(unique_key=b"k")]))
            async with asyncio.timeout(10):
                while not await observer.fetchval(
                    "SELECT count(*) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND wait_event_type = 'Lock'"
                ):
                    assert not ours.done()
            await theirs.commit()
            with pytest.raises(DuplicateJob) as refused:
                await ours
        assert refused.value.existing_id == "theirs"
    finally:
        await other.close()


async def test_workers_are_woken_by_the_commit(join: Any, headgate_database: str) -> None:
    listener = await asyncpg.connect(headgate_database)
    woken: asyncio.Queue[str] = asyncio.Queue()
    try:
        await listener.add_listener(
            "headgate_wakeup", lambda _c, _p, _n, payload: woken.put_nowait(str(payload))
        )
        async with join() as joined:
            await joined.enqueue([job(queue="a"), job(queue="b"), job(queue="a")])
            await listener.execute("SELECT 1")
            assert woken.empty()
        async with asyncio.timeout(10):
            assert {await woken.get(), await woken.get()} == {"a", "b"}
        assert woken.empty()
    finally:
        await listener.close()


async def test_a_raw_connection_needs_a_transaction(headgate_database: str) -> None:
    connection = await asyncpg.connect(headgate_database)
    try:
        with pytest.raises(InvalidRequest, match="not in a transaction"):
            await enqueue_in(connection, [job()])
    finally:
        await connection.close()
