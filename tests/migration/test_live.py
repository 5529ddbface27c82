"""Revisions while others use the database: jobs that run, long transactions, other migrators."""

import asyncio
import contextlib
import logging
import os
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import asyncpg
import pytest
from sqlalchemy import make_url

from headgate.model.errors import StoreUnavailable
from headgate.store import migration
from headgate.store.migration import downgrade, status, upgrade
from headgate.store.revisions import NEWEST
from tests.migration.catalog import read_catalog
from tests.migration.conftest import NEXT, REPOSITORY, Session

AddRevision = Callable[[str, str], None]

ADD_COLUMN = (
    '    op.add_column("headgate_job", sa.Column("added", sa.Text()))\n',
    '    op.drop_column("headgate_job", "added")\n',
)
# As the template says it.
ADD_INDEX = (
    """\
    with op.get_context().autocommit_block():
        op.execute("SET lock_timeout = 0")
        op.drop_index(
            "headgate_job_added", "headgate_job", if_exists=True, postgresql_concurrently=True
        )
        op.create_index(
            "headgate_job_added", "headgate_job", ["attempt"], postgresql_concurrently=True
        )
        op.execute("RESET lock_timeout")
    op.execute("DO $$ BEGIN ASSERT current_setting('lock_timeout') = '200ms'; END $$")
""",
    '    op.drop_index("headgate_job_added", "headgate_job")\n',
)
ENQUEUE = """
    INSERT INTO headgate_job
        (ulid, kind, payload, fingerprint, enqueued_at_ms, scheduled_at_ms)
    VALUES ($1, 'k', '', 'f', 1, 1)
"""
BUILDING = "SELECT count(*) FROM pg_stat_progress_create_index"
"""Concurrent builds in this server; a build waits in there for the transactions before it."""
MIGRATORS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'headgate-migrate'
"""


async def eventually(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  # what it asks of sets no event
            await asyncio.sleep(0.01)


@asynccontextmanager
async def enqueuing(dsn: str) -> AsyncIterator[list[float]]:
    """Jobs are enqueued one after the other; yields how long each took, in milliseconds."""
    took: list[float] = []
    loop = asyncio.get_running_loop()
    connection = await asyncpg.connect(dsn)

    async def run() -> None:
        while True:
            begin = loop.time()
            await connection.execute(ENQUEUE, secrets.token_hex(8))
            took.append((loop.time() - begin) * 1000)

    task = asyncio.create_task(run())
    try:
        await eventually(lambda: took or task.done())
        yield took
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await connection.close()


async def test_a_locked_table_is_given_up_on(
    headgate_database: str, session: Session, next_revision: AddRevision
) -> None:
    next_revision(*ADD_COLUMN)
    before = await read_catalog(headgate_database)
    async with session.transaction(), enqueuing(headgate_database) as took:
        await session.fetch("SELECT id FROM headgate_job")
        with pytest.raises(StoreUnavailable, match="keep a table locked"):
            await upgrade(headgate_database)
        # The migration queues in front of the enqueues for its time limit, and no longer.
        assert max(took) < 2_000
    assert await read_catalog(headgate_database) == before
    assert (await status(headgate_database)).database == NEWEST


async def test_a_lock_that_ends_is_waited_for(
    headgate_database: str,
    session: Session,
    next_revision: AddRevision,
    caplog: pytest.LogCaptureFixture,
) -> None:
    next_revision(*ADD_COLUMN)
    async with session.transaction():
        await session.fetch("SELECT id FROM headgate_job")
        with caplog.at_level(logging.WARNING, "headgate"):
            upgrading = asyncio.create_task(upgrade(headgate_database))
            await eventually(lambda: "in use by other sessions" in caplog.text)
    assert await upgrading == [NEXT]
    assert await downgrade(headgate_database, target=NEWEST) == [NEXT]


async def test_an_index_is_built_while_jobs_are_enqueued(
    headgate_database: str,
    session: Session,
    next_revision: AddRevision,
    caplog: pytest.LogCaptureFixture,
) -> None:
    next_revision(*ADD_INDEX)
    transaction = session.transaction(isolation="repeatable_read")
    await transaction.start()
    await session.execute(ENQUEUE, "held")
    async with enqueuing(headgate_database) as took:
        upgrading = asyncio.create_task(upgrade(headgate_database))
        watcher = await asyncpg.connect(headgate_database)
        async with asyncio.timeout(20):
            while not await watcher.fetchval(BUILDING):
                assert not upgrading.done(), upgrading.exception()
        # Longer than it would wait for any lock that others queue for.
        done = len(took)
        await asyncio.sleep(2 * migration.LOCK_TIMEOUT_MS / 1000)
        assert not upgrading.done()
        assert len(took) > done
        await transaction.commit()
        assert await upgrading == [NEXT]
        await watcher.close()
    assert "trying again" not in caplog.text
    index = [
        thing for thing in await read_catalog(headgate_database) if "headgate_job_added" in thing
    ]
    assert ("index", "headgate_job_added") in {thing[:2] for thing in index}
    assert all(thing[3] == "true" for thing in index if thing[0] == "index")


async def test_a_half_built_index_is_built_again(
    headgate_database: str, session: Session, next_revision: AddRevision
) -> None:
    next_revision(*ADD_INDEX)
    # What a broken connection leaves behind.
    await session.execute("CREATE INDEX headgate_job_added ON headgate_job (kind)")
    assert await upgrade(headgate_database) == [NEXT]
    definition = await session.fetchval("SELECT pg_get_indexdef('headgate_job_added'::regclass)")
    assert definition.endswith("(attempt)")


async def name_role(session: Session, statement: str, role: str) -> None:
    """Executes a statement that names the role where it says `%I`."""
    await session.execute(await session.fetchval("SELECT format($1, $2::text)", statement, role))


async def test_migrators_at_once_apply_each_revision_once(new_database: Callable[[], str]) -> None:
    dsn = new_database()
    role = f"headgate_migrator_{secrets.token_hex(4)}"
    owner = await asyncpg.connect(dsn)
    if not await owner.fetchval("SELECT rolsuper FROM pg_roles WHERE rolname = current_user"):
        await owner.close()
        pytest.skip("the role of the tests cannot make roles")
    # One connection for each of the four, and no right to create a schema that is there already.
    await name_role(owner, "CREATE ROLE %I LOGIN PASSWORD 'migrator' CONNECTION LIMIT 4", role)
    await name_role(owner, 'CREATE SCHEMA "billing jobs" AUTHORIZATION %I', role)
    # They start in their own time; they get to work together.
    await owner.execute(
        "SELECT pg_advisory_lock(hashtextextended('headgate migration of billing jobs', 0))"
    )
    url = make_url(dsn).set(username=role, password="migrator")
    environment = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY),
        "HEADGATE_DATABASE_URL": url.render_as_string(hide_password=False),
        "HEADGATE_SCHEMA": "billing jobs",
    }
    try:
        migrators = [
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "headgate.cli", "migrate", "up"),
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for _ in range(4)
        ]
        async with asyncio.timeout(100):
            while await owner.fetchval(MIGRATORS) < 4:
                assert all(migrator.returncode is None for migrator in migrators)
                await asyncio.sleep(0.01)
        await owner.execute("SELECT pg_advisory_unlock_all()")
        answers = [await migrator.communicate() for migrator in migrators]
        assert [migrator.returncode for migrator in migrators] == [0] * 4, answers
        assert sorted(stdout.decode() for stdout, _ in answers) == [
            f"schema billing jobs: applied {NEWEST}\n",
            *["schema billing jobs: nothing to apply\n"] * 3,
        ]
    finally:
        await name_role(owner, "DROP OWNED BY %I CASCADE", role)
        await name_role(owner, "DROP ROLE %I", role)
        await owner.close()
