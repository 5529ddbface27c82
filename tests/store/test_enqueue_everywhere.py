"""One table of expectations, on every way an enqueue can take to the database."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from headgate.model.errors import StoreError
from headgate.store.settings import StoreSettings
from headgate.store.store import Store
from tests.store.connections import KINDS, Joined
from tests.store.expectations import EXPECTATIONS, Expectation
from tests.store.journeys import bring
from tests.store.rows import Observer, assert_lanes, job_row, tags_of

Connect = Callable[[str], AbstractAsyncContextManager[Joined]]

# Rows by rows: a truncation makes new files of every table and index, which takes longer.
_CLEAR = """
DELETE FROM headgate_job; DELETE FROM headgate_active_partition; DELETE FROM headgate_inflight;
DELETE FROM headgate_quarantine; DELETE FROM headgate_enqueue_policy; DELETE FROM headgate_ledger;
DELETE FROM headgate_queue_count; DELETE FROM headgate_partition_count
"""


async def nothing(_: str) -> None:
    """Outside of a transaction there is nothing that could go on."""


@asynccontextmanager
async def our_pool(dsn: str) -> AsyncIterator[Joined]:
    async with Store(StoreSettings(dsn=dsn)) as store:
        yield Joined(store.producer.enqueue, nothing)


@asynccontextmanager
async def our_transaction(dsn: str) -> AsyncIterator[Joined]:
    async with Store(StoreSettings(dsn=dsn)) as store, store.hot_path.transaction() as session:
        yield Joined(store.within(session).producer.enqueue, nothing)


@pytest.mark.parametrize("connect", [our_pool, our_transaction, *KINDS])
async def test_an_enqueue_does_what_the_table_says(
    connect: Connect, headgate_database: str, store: Store, observer: Observer
) -> None:
    for name, expectation in EXPECTATIONS.items():
        try:
            await observer.execute(_CLEAR)
            await arrange(store, observer, expectation)
            async with connect(headgate_database) as joined:
                await enqueue(joined, expectation)
                # Whatever was said, the transaction is in order.
                await joined.execute("SELECT 1")
            await check(observer, expectation)
        except Exception as error:
            error.add_note(f"where: {name}")
            raise


async def arrange(store: Store, observer: Observer, wanted: Expectation) -> None:
    if wanted.holder is not None:
        holder = await bring(store, observer, wanted.holder, wanted.holder_state)
        await observer.execute("UPDATE headgate_job SET ulid = 'holder' WHERE ulid = $1", holder)
    for column, value in wanted.altered.items():
        # Only names of ours are put into the text.
        await observer.execute(f"UPDATE headgate_job SET {column} = $1", value)  # noqa: S608
    if wanted.quarantined:
        await observer.execute(
            "INSERT INTO headgate_quarantine VALUES ($1, 'mail', 3, 1)", wanted.quarantined
        )
    for queue, limit in wanted.limits.items():
        await observer.execute("INSERT INTO headgate_enqueue_policy VALUES ($1, $2)", queue, limit)


async def enqueue(joined: Joined, wanted: Expectation) -> None:
    if wanted.refused is None:
        enqueued = await joined.enqueue(wanted.batch)
        assert [job.id for job in enqueued] == [envelope.id for envelope in wanted.batch]
        return
    with pytest.raises(StoreError) as refusal:
        await joined.enqueue(wanted.batch)
    assert type(refusal.value) is wanted.refused
    assert {name: getattr(refusal.value, name) for name in wanted.facts} == wanted.facts


async def check(observer: Observer, wanted: Expectation) -> None:
    rows = await observer.fetch("SELECT ulid FROM headgate_job ORDER BY ulid")
    assert [row["ulid"] for row in rows] == sorted(wanted.rows)
    for job_id, columns in wanted.rows.items():
        row: dict[str, Any] = await job_row(observer, job_id) or {}
        row["tags"] = await tags_of(observer, job_id)
        assert {name: row[name] for name in columns} == columns
    await assert_lanes(observer)
