"""One connection, and the statements that it keeps prepared.

The driver keeps statements as well, but its way to one of them leads through as many calls as the
way to the server. What was run once is at hand here.

Arrays of numbers and bytes are types that the driver first has to learn about, by a query that
takes 10 to 30 ms, on each connection anew. They are PostgreSQL's own and the same everywhere, so
the first connection learns for all of the process.
"""

from collections.abc import Collection, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import asyncpg

if TYPE_CHECKING:
    from asyncpg.prepared_stmt import PreparedStatement

    # Generic for type checkers alone.
    _Driver = asyncpg.Connection[asyncpg.Record]
    _Statement = PreparedStatement[asyncpg.Record]
else:
    _Driver = asyncpg.Connection

KEPT: Final = 256
"""How many statements a connection keeps; the one that came first goes first."""

# Every server has these types under these numbers; what is created, also by `initdb`, is above.
_FIXED_NUMBERS: Final = range(10_000)

_learned: Final[dict[frozenset[int], Any]] = {}


class Connection(_Driver):
    """A connection of the driver whose `run` and `write` keep what they have prepared."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._statements: dict[str, _Statement] = {}

    async def run(self, sql: str, arguments: Sequence[Any]) -> list[asyncpg.Record]:
        """The rows of one statement. Raises what the driver does."""
        statement = self._statements.get(sql) or await self._prepare_anew(sql)
        try:
            return await statement.fetch(*arguments)
        except asyncpg.InvalidCachedStatementError:
            self._statements.clear()
            raise

    async def write(self, sql: str, arguments: Sequence[Any]) -> int:
        """How many rows one statement wrote that answers with none."""
        await self.run(sql, arguments)
        status = str(self._statements[sql].get_statusmsg())
        return int(status.rpartition(" ")[2])

    async def _introspect_types(
        self, typeoids: Collection[int], timeout: float | None
    ) -> tuple[Any, Any]:
        wanted = frozenset(typeoids)
        if wanted in _learned:
            # The second tells which statement has asked: none that was in the way of another.
            return _learned[wanted], SimpleNamespace(name="learned")
        asked = super()._introspect_types  # type: ignore[misc]  # private to the driver
        types, statement = await asked(typeoids, timeout)
        if all(number in _FIXED_NUMBERS for number in wanted):
            _learned[wanted] = types
        return types, statement

    async def _prepare_anew(self, sql: str) -> "_Statement":
        statement = await self.prepare(sql)
        if len(self._statements) == KEPT:
            del self._statements[next(iter(self._statements))]
        self._statements[sql] = statement
        return statement


class PooledConnection(Connection):
    """One behind a pooler: each transaction may meet another session, so nothing is kept."""

    async def run(self, sql: str, arguments: Sequence[Any]) -> list[asyncpg.Record]:
        return await self.fetch(sql, *arguments)

    async def write(self, sql: str, arguments: Sequence[Any]) -> int:
        status = await self.execute(sql, *arguments)
        return int(status.rpartition(" ")[2])
