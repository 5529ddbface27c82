"""A schema with an odd name: everything works there, and nothing of it is anywhere else."""

import secrets
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest

from headgate.store.migration import upgrade
from headgate.store.settings import StoreSettings
from headgate.store.store import Store
from headgate.testing.clones import Clones
from tests.store import tour

SCHEMAS = ["billing jobs", 'o"brien', "it's", "público", "a.b", "$1", ":x", "%s"]


@pytest.fixture
def empty_database(headgate_clones: Clones) -> Iterator[str]:
    name = f"headgate_test_{secrets.token_hex(4)}"
    yield headgate_clones.clone("template0", name)
    headgate_clones.drop(name)


@pytest.fixture
async def session(empty_database: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(empty_database)
    yield connection
    await connection.close()


@pytest.mark.parametrize("schema", SCHEMAS)
async def test_everything_stays_in_its_schema(
    empty_database: str, session: Any, schema: str
) -> None:
    await upgrade(empty_database, schema)
    async with Store(StoreSettings(dsn=empty_database, schema=schema)) as store:
        with store.listener.subscribe(["default"]) as subscription:
            assert await subscription.wait(10_000) == {""}
            await tour.take(store)
            assert "default" in await subscription.wait(10_000)
    rows = await session.fetch(
        "SELECT DISTINCT nspname FROM pg_class JOIN pg_namespace AS n ON n.oid = relnamespace"
        " WHERE relname LIKE 'headgate%'"
    )
    assert [row["nspname"] for row in rows] == [schema]


async def test_two_installations_in_one_database_never_meet(empty_database: str) -> None:
    stores = []
    for schema in ("one", "public"):
        await upgrade(empty_database, schema)
        stores.append(Store(StoreSettings(dsn=empty_database, schema=schema)))
    for store in stores:
        await tour.take(store)
    for store in stores:
        await store.close()


@pytest.mark.parametrize("schema", ["", "a\0b", "x" * 64, "é" * 32])
def test_what_cannot_name_a_schema(schema: str) -> None:
    with pytest.raises(Exception, match="schema must"):
        StoreSettings(dsn="postgresql://localhost/x", schema=schema)
