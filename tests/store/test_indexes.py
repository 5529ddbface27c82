"""Indexes: told how they are, and rebuilt while others hold their table."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from headgate.model.errors import InvalidRequest, StoreUnavailable
from headgate.model.indexes import IndexHealth
from headgate.store.migration import upgrade
from headgate.store.store import Store
from headgate.tables import metadata
from tests.store.backlog import fill, someone_waits
from tests.store.conftest import OpenStore
from tests.store.rows import Observer

INDEX = "headgate_job_queue"
INTERRUPT = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
    " AND application_name = 'headgate-indexes' AND state = 'active'"
)


async def health(store: Store) -> dict[str, IndexHealth]:
    return {index.name: index for index in await store.indexes.health()}


async def oid(observer: Observer, name: str) -> int | None:
    found: int | None = await observer.fetchval("SELECT to_regclass($1)::oid", name)
    return found


async def leftovers(store: Store) -> list[str]:
    return [index.name for index in await store.indexes.health() if index.leftover]


@asynccontextmanager
async def a_long_transaction(dsn: str) -> AsyncIterator[Observer]:
    """Somebody who has written a job and does not come to an end."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("BEGIN")
        await connection.execute("UPDATE headgate_job SET priority = 1")
        yield connection
    finally:
        await connection.close()


async def test_every_index_is_told(store: Store, observer: Observer) -> None:
    await fill(store, 50)
    await observer.execute("ANALYZE headgate_job")
    found = await health(store)
    declared = {str(index.name) for table in metadata.tables.values() for index in table.indexes}
    # Those of the archive are the ones of its partitions.
    assert {name for name in declared if "archive" not in name} <= set(found)
    assert all(index.valid and not index.leftover for index in found.values())
    queue = found[INDEX]
    assert (queue.table, queue.rows_estimated) == ("headgate_job", 50)
    assert queue.bytes > 0


async def test_one_that_is_invalid_is_told_and_cured(store: Store, observer: Observer) -> None:
    await observer.execute(
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = $1::regclass", INDEX
    )
    found = await health(store)
    assert [name for name, index in found.items() if not index.valid] == [INDEX]
    assert not found[INDEX].leftover
    assert await store.indexes.rebuild([INDEX]) == []
    assert (await health(store))[INDEX].valid


async def test_a_rebuilt_index_is_another_one(store: Store, observer: Observer) -> None:
    await fill(store, 10)
    before = await oid(observer, INDEX), await oid(observer, "headgate_job_pkey")
    await store.indexes.rebuild([INDEX, "headgate_job_pkey"])
    after = await oid(observer, INDEX), await oid(observer, "headgate_job_pkey")
    assert set(before) & set(after) == set()
    assert all(index.valid for index in await store.indexes.health())


@pytest.mark.parametrize("name", ["pg_class_oid_index", "other", "", "headgate_job", 'a"; DROP'])
async def test_only_indexes_of_ours(store: Store, observer: Observer, name: str) -> None:
    await observer.execute("CREATE TABLE mine (id int CONSTRAINT other PRIMARY KEY)")
    before = await oid(observer, INDEX)
    with pytest.raises(InvalidRequest) as refused:
        await store.indexes.rebuild([INDEX, name])
    assert refused.value.message == f"index {name} is not a maintainable Headgate index"
    assert await oid(observer, INDEX) == before


async def test_work_goes_on_meanwhile(
    store: Store, observer: Observer, headgate_database: str
) -> None:
    await fill(store, 10)
    async with a_long_transaction(headgate_database) as other:
        rebuilding = asyncio.create_task(store.indexes.rebuild([INDEX]))
        await someone_waits(observer, other)
        await asyncio.wait_for(fill(store, 5), 10)
        assert len(await store.gate.admit("w", ("default",), 5, 30_000)) == 5
        with pytest.raises(StoreUnavailable, match="another rebuild of indexes is running"):
            await store.indexes.rebuild([INDEX])
        await other.execute("COMMIT")
        await asyncio.wait_for(rebuilding, 30)
    assert await leftovers(store) == []


async def test_interrupted_rebuilds_do_not_pile_up(
    store: Store, observer: Observer, headgate_database: str
) -> None:
    await fill(store, 10)
    for _ in range(3):
        async with a_long_transaction(headgate_database) as other:
            rebuilding = asyncio.create_task(store.indexes.rebuild([INDEX]))
            await someone_waits(observer, other)
            assert await observer.fetchval(INTERRUPT)
            with pytest.raises(StoreUnavailable):
                await rebuilding
        assert len(await leftovers(store)) == 1
    assert (await health(store))[INDEX].valid
    left = await leftovers(store)
    assert await store.indexes.rebuild([]) == left
    assert await leftovers(store) == []


async def test_in_a_schema_of_its_own(
    open_store: OpenStore, observer: Observer, headgate_database: str
) -> None:
    schema = 'odd "schema\'s" name'
    await upgrade(headgate_database, schema)
    other = open_store(schema=schema)
    before = await oid(observer, INDEX)
    await other.indexes.rebuild([INDEX])
    assert await oid(observer, INDEX) == before
    assert set(await health(other)) == set(await health(open_store()))
