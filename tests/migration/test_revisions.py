"""Up, down, and who may work with what."""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable

import pytest
from alembic.script import ScriptDirectory

from headgate.model.errors import SchemaIncompatible, SchemaMissing
from headgate.store.database import Database
from headgate.store.migration import Status, downgrade, status, upgrade
from headgate.store.revisions import NEEDED, NEWEST, check
from headgate.store.settings import StoreSettings
from tests.migration.catalog import read_catalog
from tests.migration.conftest import NEXT, REPOSITORY, Session


async def checked(dsn: str, schema: str = "public") -> None:
    database = Database(StoreSettings(dsn=dsn, schema=schema))
    try:
        await check(database)
    finally:
        await database.close()


def test_revisions_are_numbered_in_a_line() -> None:
    line = list(reversed(list(ScriptDirectory(str(REPOSITORY / "alembic")).walk_revisions())))
    numbers = [script.revision for script in line]
    assert numbers == [f"{number:04d}" for number in range(1, len(line) + 1)]
    assert [script.down_revision for script in line] == [None, *numbers[:-1]]
    assert numbers[-1] == NEWEST
    assert NEEDED in numbers


async def test_up_down_up(empty_database: str) -> None:
    assert await upgrade(empty_database) == [NEWEST]
    assert await upgrade(empty_database) == []
    first = await read_catalog(empty_database)
    assert await status(empty_database) == Status(database=NEWEST, code=NEWEST, minimum=NEWEST)
    assert await downgrade(empty_database) == [NEWEST]
    assert await read_catalog(empty_database) == frozenset()
    assert await status(empty_database) == Status(database=None, code=NEWEST, minimum=None)
    assert await downgrade(empty_database) == []
    assert await upgrade(empty_database) == [NEWEST]
    assert await read_catalog(empty_database) == first


async def test_two_schemas_live_side_by_side(headgate_database: str) -> None:
    other = "billing jobs"
    await asyncio.gather(upgrade(headgate_database, other), upgrade(headgate_database, "third"))
    await checked(headgate_database, other)
    await downgrade(headgate_database, "public")
    assert await read_catalog(headgate_database) == frozenset()
    await checked(headgate_database, other)
    await checked(headgate_database, "third")
    with pytest.raises(SchemaMissing, match="schema public has no tables"):
        await checked(headgate_database)


async def test_down_leaves_nothing_of_the_version_table(
    headgate_database: str, session: Session
) -> None:
    await downgrade(headgate_database)
    left = "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace"
    assert await session.fetchval(left) == 0
    types = "SELECT count(*) FROM pg_type WHERE typnamespace = 'public'::regnamespace"
    assert await session.fetchval(types) == 0


async def test_check_passes_on_the_schema_of_this_code(headgate_database: str) -> None:
    await checked(headgate_database)


async def test_check_names_the_command_where_there_is_no_schema(empty_database: str) -> None:
    with pytest.raises(SchemaMissing, match="headgate migrate up"):
        await checked(empty_database)
    with pytest.raises(SchemaMissing, match=r"schema nowhere .* `headgate migrate up`"):
        await checked(empty_database, "nowhere")


async def test_check_refuses_an_older_schema_than_it_needs(
    headgate_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.store.revisions.NEEDED", NEXT)
    text = f"at revision {NEWEST} and this code needs {NEXT}; run `headgate migrate up`"
    with pytest.raises(SchemaMissing, match=text):
        await checked(headgate_database)


@pytest.mark.parametrize("minimum", [NEWEST, NEXT])
async def test_check_obeys_the_minimum_of_a_newer_schema(
    headgate_database: str, session: Session, minimum: str
) -> None:
    await session.execute("UPDATE headgate_schema_version SET version_num = $1", NEXT)
    await session.execute("INSERT INTO headgate_compatibility VALUES ($1, $2)", NEXT, minimum)
    if minimum == NEWEST:
        await checked(headgate_database)
    else:
        text = (
            f"at revision {NEXT} and works with code of revision {NEXT} .* this code is of {NEWEST}"
        )
        with pytest.raises(SchemaIncompatible, match=text):
            await checked(headgate_database)


@pytest.mark.parametrize("migrate", [upgrade, downgrade])
async def test_an_unknown_revision_is_not_migrated(
    headgate_database: str,
    session: Session,
    migrate: Callable[[str], Awaitable[list[str]]],
) -> None:
    before = await read_catalog(headgate_database)
    await session.execute("UPDATE headgate_schema_version SET version_num = '0042'")
    with pytest.raises(SchemaIncompatible, match=f"revision 0042, .* knows is {NEWEST}"):
        await migrate(headgate_database)
    assert await read_catalog(headgate_database) == before


async def test_migrating_leaves_the_process_as_it_was(empty_database: str) -> None:
    def state() -> tuple[object, ...]:
        root = logging.getLogger()
        return list(sys.path), root.level, list(root.handlers), root.disabled

    logger = logging.getLogger("an application's own")
    before = state()
    await upgrade(empty_database)
    assert state() == before
    assert not logger.disabled
