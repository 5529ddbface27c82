"""Enqueue inside a caller's transaction, on every kind of connection."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from headgate.model.envelope import Envelope
from headgate.model.errors import (
    DuplicateJob,
    InvalidRequest,
)
from headgate.model.job import Enqueued
from headgate.store.joining import enqueue_in, enqueue_in_sync
from tests.store.connections import KINDS
from tests.store.transactions import django, driver


@pytest.fixture(params=KINDS)
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


def test_a_driver_that_blocks_needs_a_transaction(headgate_database: str) -> None:
    with driver(headgate_database) as connection:
        connection.autocommit = True
        with pytest.raises(InvalidRequest, match="not in a transaction"):
            enqueue_in_sync(connection, [job()])
        with connection.transaction():
            enqueue_in_sync(connection, [job()])
    with django(headgate_database) as connection:
        connection.in_atomic_block = False
        with pytest.raises(InvalidRequest, match="not in a transaction"):
            enqueue_in_sync(connection, [job()])


async def test_a_raw_connection_needs_a_transaction(headgate_database: str) -> None:
    connection = await asyncpg.connect(headgate_database)
    try:
        with pytest.raises(InvalidRequest, match="not in a transaction"):
            await enqueue_in(connection, [job()])
    finally:
        await connection.close()
