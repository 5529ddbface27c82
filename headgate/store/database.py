"""The one place that runs statements: pools, transactions, time limits, repetition, errors.

Opening a `Database` does not connect; each call connects when it needs to, so a process may start
before its database and outlive restarts of it. Nothing is reset between uses of a connection,
since no statement of ours leaves session state behind; that keeps a read at one round trip.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol, TypeVar

import asyncpg
from sqlalchemy import Executable

from headgate.queries.settings import array_types, local_settings
from headgate.store.compilation import Compiler, compiler
from headgate.store.connection import Connection, PooledConnection
from headgate.store.failures import DRIVER_FAILURES, RETRYABLE, store_error
from headgate.store.pool import Pool, Use
from headgate.store.settings import StoreSettings

_ATTEMPTS: Final = 5
# The client gives up this long after the server should have: the socket is then half open.
_GRACE_MS: Final = 5_000

Result = TypeVar("Result")
Row = asyncpg.Record

_COMMON_SETTINGS: Final = {
    "application_name": "headgate",
    "idle_in_transaction_session_timeout": "60000",
    "jit": "off",
}

GATE_SETTINGS: Final = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
"""For the gate alone: its plans must not degrade while statistics are missing or stale."""


class Executor(Protocol):
    """What a port needs: a `Database`, or the `Session` of a transaction that is open already."""

    async def fetch(
        self, statement: Executable, parameters: Mapping[str, Any] | None = None
    ) -> list[Row]:
        """The rows of one statement."""

    async def transact(self, work: "Callable[[Session], Awaitable[Result]]") -> Result:
        """Runs `work` whole or not at all."""


class Writer(Executor, Protocol):
    """One that also counts what a statement wrote."""

    async def write(self, statement: Executable, parameters: Mapping[str, Any]) -> int:
        """How many rows one statement wrote that answers with none."""


READ_SETTINGS: Final = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
}
"""For reads: each has a form that one index serves in its order and within a bound. What is left to
the planner is to read more than that and sort it, which it does where its statistics are wrong; and
to think it all over for each request, which takes longer than most of them."""

FLEETING_SETTINGS: Final = {**READ_SETTINGS, "synchronous_commit": "off"}
"""For what need not survive a crash of the server, so that no claim waits for its flush of the log:
wake-ups, since polling finds the work, and who holds a duty, since that protects nothing."""


class Session:
    """One connection, inside a transaction unless it says otherwise."""

    __slots__ = ("_compile", "_connection", "_when_committed")

    def __init__(self, connection: Connection, compile_statement: Compiler) -> None:
        self._connection = connection
        self._compile = compile_statement
        self._when_committed: list[Callable[[], None]] = []

    @property
    def connection(self) -> Connection:
        """The driver's own connection, for statements that are not ours."""
        return self._connection

    async def fetch(
        self, statement: Executable, parameters: Mapping[str, Any] | None = None
    ) -> list[Row]:
        compiled = self._compile(statement)
        return await self._connection.run(compiled.sql, compiled.arguments(parameters or {}))

    async def write(self, statement: Executable, parameters: Mapping[str, Any]) -> int:
        compiled = self._compile(statement)
        return await self._connection.write(compiled.sql, compiled.arguments(parameters))

    async def transact(self, work: "Callable[[Session], Awaitable[Result]]") -> Result:
        """Runs `work` as a part of this transaction; an error that it raises undoes that part."""
        async with self._connection.transaction():
            return await work(self)

    def when_committed(self, action: Callable[[], None]) -> None:
        """Does something once the transaction is committed, and not at all when it is not."""
        self._when_committed.append(action)

    def committed(self) -> None:
        """For whoever commits: does what was put off until then."""
        for action in self._when_committed:
            action()


class Database:
    """A pool of connections to one installation, with one set of session settings."""

    def __init__(
        self,
        settings: StoreSettings,
        *,
        size: int | None = None,
        session_settings: Mapping[str, str] | None = None,
    ) -> None:
        self.settings = settings
        self.compile = compiler(settings.schema)
        self._session_settings = {
            **_COMMON_SETTINGS,
            "statement_timeout": str(settings.statement_timeout_ms),
            "lock_timeout": str(settings.lock_timeout_ms),
            **(session_settings or {}),
        }
        self._pool = Pool(self._connect, size or settings.pool_size)

    async def close(self) -> None:
        """Closes every connection; one that is in use when it comes back."""
        await self._pool.close()

    async def fetch(
        self, statement: Executable, parameters: Mapping[str, Any] | None = None
    ) -> list[Row]:
        """The rows of one statement, which is its own transaction, in one round trip.

        Repeated when it lost against a concurrent one. Raises `StoreError`.
        """
        compiled = self.compile(statement)
        arguments = compiled.arguments(parameters or {})
        return await self._run(
            lambda connection: connection.run(compiled.sql, arguments),
            transaction=self.settings.pooler,
        )

    async def write(self, statement: Executable, parameters: Mapping[str, Any]) -> int:
        """How many rows one statement wrote that answers with none; for the rest like `fetch`."""
        compiled = self.compile(statement)
        arguments = compiled.arguments(parameters)
        return await self._run(
            lambda connection: connection.write(compiled.sql, arguments),
            transaction=self.settings.pooler,
        )

    async def transact(self, work: Callable[[Session], Awaitable[Result]]) -> Result:
        """Runs `work` in one transaction and commits; repeats it whole when it lost a race.

        An error that `work` raises rolls back and passes. Raises `StoreError`.
        """

        sessions: list[Session] = []

        async def run(connection: Connection) -> Result:
            sessions.append(Session(connection, self.compile))
            return await work(sessions[-1])

        result = await self._run(run, transaction=True)
        sessions[-1].committed()
        return result

    @asynccontextmanager
    async def transaction(self, *, frozen: bool = False) -> AsyncIterator[Session]:
        """A transaction held by the caller; nothing is repeated. Raises `StoreError`.

        A `frozen` one only reads, and all of it in the snapshot of its first statement.
        """
        terms: dict[str, Any] = {"isolation": "repeatable_read", "readonly": True} if frozen else {}
        try:
            async with self._connection() as connection, connection.transaction(**terms):
                await self._apply_settings(connection)
                session = Session(connection, self.compile)
                yield session
            session.committed()
        except DRIVER_FAILURES as failure:
            raise store_error(failure) from failure

    async def _run(
        self, work: Callable[[Connection], Awaitable[Result]], *, transaction: bool
    ) -> Result:
        attempt = 1
        while True:
            try:
                async with self._connection() as connection:
                    if not transaction:
                        return await work(connection)
                    async with connection.transaction():
                        await self._apply_settings(connection)
                        return await work(connection)
            except RETRYABLE as failure:
                if attempt == _ATTEMPTS:
                    raise store_error(failure) from failure
            except DRIVER_FAILURES as failure:
                raise store_error(failure) from failure
            # A loser that waits holds no connection.
            await asyncio.sleep(random.uniform(0.001, 0.005) * 2**attempt)
            attempt += 1

    async def _apply_settings(self, connection: Connection) -> None:
        # Behind a transaction pooler no session is ours, so each transaction brings its settings.
        if self.settings.pooler:
            compiled = self.compile(local_settings(tuple(self._session_settings.items())))
            await connection.run(compiled.sql, compiled.arguments({}))

    def _connection(self) -> Use:
        return Use(self._pool, self.settings.connect_timeout_ms)

    async def _connect(self) -> Connection:
        options = connection_options(self.settings, self._session_settings)
        connection: Connection = await asyncpg.connect(**options)
        if self.settings.pooler:
            try:
                # The driver turns JIT off while it looks a type up, and back to what it was: not in
                # a transaction that has its own settings, or that one would stay in the session.
                async with connection.transaction():
                    await connection.prepare(self.compile(array_types()).sql)
            except BaseException:
                connection.terminate()
                raise
        return connection


def connection_options(
    settings: StoreSettings, session_settings: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """What the driver needs for one connection of ours, in a pool or alone."""
    return {
        "dsn": settings.driver_dsn,
        "timeout": settings.connect_timeout_ms / 1000,
        "command_timeout": (settings.statement_timeout_ms + _GRACE_MS) / 1000,
        "connection_class": PooledConnection if settings.pooler else Connection,
        **({"statement_cache_size": 0} if settings.pooler else {}),
        "server_settings": {}
        if settings.pooler
        else dict(_COMMON_SETTINGS if session_settings is None else session_settings),
    }
