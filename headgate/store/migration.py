"""Runs the revisions of the schema, from code and for the `alembic` command alike.

A migration holds one connection. It takes turns with others of the same schema, and rather than
queue behind a long transaction, and let everybody queue behind itself, it gives up its place after
a moment and comes back. Alembic is synchronous and runs inside the caller's event loop; its global
state admits one run at a time per process. Neither logging nor `sys.path` is touched.
"""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path
from typing import Any, Final

import asyncpg
import msgspec
from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection, Dialect, Sequence, TableClause
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import NullPool
from sqlalchemy.types import SchemaType

import headgate
from headgate.model.errors import BackendError, StoreUnavailable
from headgate.queries.revisions import installed_revision, try_migration_turn
from headgate.store.database import Database, connection_options
from headgate.store.failures import DRIVER_FAILURES, RETRYABLE, store_error
from headgate.store.revisions import NEWEST, Installed, installed, refuse_unknown
from headgate.store.settings import StoreSettings

LOCK_TIMEOUT_MS: Final = 3_000
_ATTEMPTS: Final = 5
_PAUSE_MS: Final = 1_000
_TURN_LIMIT_MS: Final = 600_000
_TURN_POLL_MS: Final = 50

_ALEMBIC = threading.Lock()

logger = logging.getLogger(__name__)


class Status(msgspec.Struct, frozen=True):
    """The revision of the database, None when it has none; the newest that this code knows; and
    the oldest code that works with the database."""

    database: str | None
    code: str
    minimum: str | None


async def upgrade(dsn: str, schema: str = "public") -> list[str]:
    """Brings the schema to the newest revision, creating it where it is missing.

    Returns the revisions that were applied. Each is its own transaction, so what was applied stays
    when a later one fails. Safe to call from any number of processes at once. Raises
    `SchemaIncompatible` when the database is ahead of this code, and other `StoreError`s.
    """
    return await _migrate(StoreSettings(dsn=dsn, schema=schema), command.upgrade, "head")


async def downgrade(dsn: str, schema: str = "public", *, target: str = "base") -> list[str]:
    """Takes the schema back to the revision `target`, or out of the database, data and all.

    Returns the revisions that were taken back. Raises as `upgrade` does.
    """
    settings = StoreSettings(dsn=dsn, schema=schema)
    if (await status(dsn, schema)).database is None:
        return []
    return await _migrate(settings, command.downgrade, target)


async def status(dsn: str, schema: str = "public") -> Status:
    """Where the database and this code stand. Raises `StoreError`."""
    database = Database(StoreSettings(dsn=dsn, schema=schema), size=1)
    try:
        found = await installed(database)
    finally:
        await database.close()
    if found is None:
        return Status(database=None, code=NEWEST, minimum=None)
    return Status(database=found.revision, code=NEWEST, minimum=found.minimum_revision)


async def offline_sql(schema: str = "public", *, since: str | None = None) -> str:
    """The statements of `upgrade` for a database at revision `since`, or for an empty one."""
    # Refuses what cannot name a schema.
    config = _config(StoreSettings(dsn="postgresql://", schema=schema).schema)
    output = StringIO()
    config.output_buffer = output
    async with _alembic():
        command.upgrade(config, "head" if since is None else f"{since}:head", sql=True)
    return output.getvalue()


async def migrating(settings: StoreSettings, work: Callable[[Connection], None]) -> None:
    """Runs `work` on a connection whose turn it is, again when it met a lock or a deadlock.

    Raises `StoreError`.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            async with _connected(settings) as connection:
                await _take_turn(connection, settings.schema)
                refuse_unknown(await _installed(connection))
                await connection.run_sync(work)
                return
        except DBAPIError as error:
            failure = _driver_failure(error)
            if not isinstance(failure, (asyncpg.LockNotAvailableError, *RETRYABLE)):
                raise store_error(failure) from error
        logger.warning("a table is in use by other sessions (%s); trying again", failure)
        await asyncio.sleep(_PAUSE_MS * attempt / 1000)
    raise StoreUnavailable("other sessions keep a table locked that the next revision changes")


def name_schema(dialect: Dialect, schema: str) -> None:
    """Makes `dialect` write `schema` before each name of a table, sequence or type that has none.

    So a revision need not say it. A translation of the connection's would pass over the light
    tables of data migrations and over offline statements.
    """

    def schema_of(item: Any) -> str | None:
        ours = isinstance(item, TableClause | Sequence | SchemaType)
        return item.schema or (schema if ours else None)

    dialect.identifier_preparer.schema_for_object = schema_of  # type: ignore[assignment]  # None too


async def _migrate(
    settings: StoreSettings, run: Callable[[Config, str], None], target: str
) -> list[str]:
    config = _config(settings.schema)
    applied: list[str] = []
    config.attributes["applied"] = applied

    def work(connection: Connection) -> None:
        config.attributes["connection"] = connection
        run(config, target)

    async with _alembic():
        await migrating(settings, work)
    return applied


def _config(schema: str) -> Config:
    config = Config()
    # Alembic interpolates its options.
    config.set_main_option("script_location", str(_folder()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["schema"] = schema
    return config


def _folder() -> Path:
    """The revisions: inside the installed package, or beside it in the repository."""
    package = Path(headgate.__file__).parent
    for folder in (package / "alembic", package.parent / "alembic"):
        if (folder / "env.py").is_file():
            return folder
    raise BackendError(f"the installation in {package} lacks its migrations")


@asynccontextmanager
async def _alembic() -> AsyncIterator[None]:
    # Whoever holds it may run in another event loop.
    while not _ALEMBIC.acquire(blocking=False):  # noqa: ASYNC110  # so no Event can tell
        await asyncio.sleep(0.01)
    try:
        yield
    except CommandError as error:
        raise BackendError(str(error)) from error
    finally:
        _ALEMBIC.release()


@asynccontextmanager
async def _connected(settings: StoreSettings) -> AsyncIterator[AsyncConnection]:
    options = connection_options(
        settings,
        {
            "application_name": "headgate-migrate",
            "lock_timeout": str(LOCK_TIMEOUT_MS),
            "statement_timeout": "0",
            "idle_in_transaction_session_timeout": "0",
        },
    )
    # An index may take hours to build.
    options["command_timeout"] = None

    async def connect() -> Any:
        try:
            return await asyncpg.connect(**options)
        except DRIVER_FAILURES as failure:
            raise store_error(failure) from failure

    engine = create_async_engine(
        "postgresql+asyncpg://",
        async_creator=connect,
        poolclass=NullPool,
    )
    name_schema(engine.dialect, settings.schema)
    try:
        async with engine.connect() as connection:
            yield connection
    finally:
        await engine.dispose()


async def _take_turn(connection: AsyncConnection, schema: str) -> None:
    loop = asyncio.get_running_loop()
    limit = loop.time() + _TURN_LIMIT_MS / 1000
    name = f"headgate migration of {schema}"
    waiting = False
    while not await connection.scalar(try_migration_turn(), {"name": name}):
        await connection.rollback()
        if loop.time() > limit:
            raise StoreUnavailable(f"another migration of schema {schema} does not end")
        if not waiting:
            logger.warning("another migration of schema %s is running; waiting for it", schema)
            waiting = True
        await asyncio.sleep(_TURN_POLL_MS / 1000)
    # The lock is the session's and stays; Alembic wants a connection outside any transaction.
    await connection.rollback()


async def _installed(connection: AsyncConnection) -> Installed | None:
    try:
        row = (await connection.execute(installed_revision())).one_or_none()
    except DBAPIError as error:
        if isinstance(
            _driver_failure(error), asyncpg.UndefinedTableError | asyncpg.InvalidSchemaNameError
        ):
            return None
        raise
    finally:
        await connection.rollback()
    return None if row is None else Installed(*row)


def _driver_failure(error: DBAPIError) -> BaseException:
    # SQLAlchemy wraps the driver's error twice: in the dialect's form of it, and in its own.
    cause = error.orig and error.orig.__cause__
    return cause or error
