"""The revisions and the tables in the code make one and the same schema."""

from collections import Counter

import asyncpg
import pytest
from sqlalchemy.ext.asyncio import create_async_engine

import headgate.ddl  # noqa: F401  # completes the metadata
from headgate.store.migration import offline_sql, upgrade
from headgate.tables import metadata
from tests.migration.catalog import Catalog, read_catalog

ODD_SCHEMA = "billing jobs"


async def created(dsn: str) -> Catalog:
    engine = create_async_engine(
        dsn.replace("postgresql://", "postgresql+asyncpg://", 1),
        execution_options={"schema_translate_map": {None: "public"}},
    )
    try:
        async with engine.begin() as connection:
            await connection.run_sync(metadata.create_all)
    finally:
        await engine.dispose()
    return await read_catalog(dsn)


def assert_equal(migrated: Catalog, expected: Catalog) -> None:
    assert sorted(migrated - expected) == []
    assert sorted(expected - migrated) == []


async def test_migrated_is_created(empty_database: str, headgate_database: str) -> None:
    assert_equal(await read_catalog(headgate_database), await created(empty_database))


async def test_the_catalog_shows_what_matters(headgate_database: str) -> None:
    catalog = await read_catalog(headgate_database)
    kinds = Counter(kind for kind, *_ in catalog)
    assert (kinds["trigger"], kinds["function"], kinds["enum"], kinds["parent"]) == (5, 6, 1, 4)
    text = "\n".join(" ".join(thing) for thing in catalog)
    for part in (
        "fillfactor=50",
        "RANGE (evicted_at_ms)",
        "REFERENCING OLD TABLE AS gone NEW TABLE AS fresh",
        "INSERT INTO ~.headgate_ledger",
        "(state <> 'completed'::~.headgate_state)",
        "ON DELETE CASCADE",
        "pending scheduled available running retryable",
    ):
        assert part in text


async def test_an_odd_schema_is_like_the_default_one(
    empty_database: str, headgate_database: str
) -> None:
    await upgrade(empty_database, ODD_SCHEMA)
    assert_equal(
        await read_catalog(empty_database, ODD_SCHEMA), await read_catalog(headgate_database)
    )
    assert await read_catalog(empty_database) == frozenset()


@pytest.mark.parametrize("schema", ["public", ODD_SCHEMA])
async def test_offline_statements_make_the_same(
    empty_database: str, headgate_database: str, schema: str
) -> None:
    connection = await asyncpg.connect(empty_database)
    try:
        await connection.execute(await offline_sql(schema))
    finally:
        await connection.close()
    assert_equal(await read_catalog(empty_database, schema), await read_catalog(headgate_database))
    assert await upgrade(empty_database, schema) == []
