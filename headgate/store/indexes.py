"""Index health, and rebuilding what has grown out of shape while everybody goes on."""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import asyncpg

from headgate.model.errors import InvalidRequest, StoreUnavailable
from headgate.model.indexes import IndexHealth
from headgate.queries.indexes import (
    ChangeIndex,
    drop_index,
    index_health,
    rebuild_index,
    try_rebuild_turn,
)
from headgate.store.compilation import Compiled, compiler
from headgate.store.database import Executor, Session, connection_options
from headgate.store.failures import DRIVER_FAILURES, store_error
from headgate.store.settings import StoreSettings

_WAIT_MS: Final = 600_000
"""How long a rebuild waits for transactions that were there before it."""

logger = logging.getLogger("headgate.store")


class Indexes:
    """The indexes of an installation. All methods raise `StoreError`."""

    def __init__(self, database: Executor, settings: StoreSettings) -> None:
        self._database = database
        self._settings = settings

    async def health(self) -> list[IndexHealth]:
        """Every index, by name."""
        return await self._health(self._database)

    async def rebuild(self, names: Sequence[str]) -> list[str]:
        """Rebuilds the indexes one after the other and drops what earlier rebuilds left; which
        leftovers those were.

        Readers and writers go on, each rebuild waits up to ten minutes for transactions that are
        open. One that is interrupted leaves an index that nobody uses, at most one, which the next
        run drops; the old index stays in use. Raises `InvalidRequest` for a name that is not one of
        ours, before anything is done, and `StoreUnavailable` while another rebuild is running.
        """
        async with self._alone() as session:
            before = await self._health(session)
            ours = {index.name for index in before if not index.leftover}
            for name in names:
                if name not in ours:
                    raise InvalidRequest(f"index {name} is not a maintainable Headgate index")
            leftovers = [index.name for index in before if index.leftover]
            for name in leftovers:
                await self._change(session, drop_index(name))
            for name in names:
                logger.info("rebuilding %s", name)
                await self._change(session, rebuild_index(name))
            return leftovers

    async def _health(self, executor: Executor) -> list[IndexHealth]:
        schema = {"in_schema": self._settings.schema}
        return [IndexHealth(**row) for row in await executor.fetch(index_health(), schema)]

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator["_Alone"]:
        """A session without a time limit, whose turn it is."""
        options = connection_options(
            self._settings,
            {
                "application_name": "headgate-indexes",
                "statement_timeout": "0",
                "lock_timeout": str(_WAIT_MS),
            },
        )
        options["command_timeout"] = None
        try:
            connection = await asyncpg.connect(**options)
            try:
                session = _Alone(connection, compiler(self._settings.schema))
                schema = {"in_schema": self._settings.schema}
                [turn] = await session.fetch(try_rebuild_turn(), schema)
                if not turn[0]:
                    raise StoreUnavailable("another rebuild of indexes is running")
                yield session
            finally:
                await connection.close()
        except DRIVER_FAILURES as failure:
            raise store_error(failure) from failure

    async def _change(self, session: "_Alone", change: ChangeIndex) -> None:
        await session.execute(Compiled(change, self._settings.schema).sql)


class _Alone(Session):
    """A session outside any transaction."""

    __slots__ = ()

    async def execute(self, sql: str) -> Any:
        # Not prepared: that would be a transaction.
        return await self._connection.execute(sql)
