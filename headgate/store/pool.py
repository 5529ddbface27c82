"""A small pool of connections: the one used last is used next.

The driver's own pool starts a task for every acquire and every release, which costs more than a
point read does. This one hands connections over directly. Whoever finds none idle takes the first
that is given back or made: making one takes longer than most uses do. A connection whose use did
not end cleanly is thrown away rather than repaired, so none ever carries an open transaction or a
pending cancellation to its next user.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Final

import asyncpg

from headgate.model.errors import HeadgateError

Connect = Callable[[], Awaitable[Any]]

_IDLE_SECONDS: Final = 300
_LOST: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)
_SESSION_ENDING: Final = frozenset({"FATAL", "PANIC"})


class Pool:
    """Up to `size` connections, made when they are needed. For one event loop."""

    def __init__(self, connect: Connect, size: int) -> None:
        self._connect = connect
        self._room = size
        self._idle: list[tuple[Any, float]] = []
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._connecting: set[asyncio.Task[None]] = set()
        self._closed = False

    def take(self) -> Any:
        """A connection that is idle, if there is one, like `acquire`."""
        if self._closed:
            raise asyncpg.InterfaceError("the pool is closed")
        while self._idle:
            connection, used_at = self._idle.pop()
            if not connection.is_closed():
                if used_at > time.monotonic() - _IDLE_SECONDS:
                    return connection
                # A connection that slept for long may have died without a word.
                connection.terminate()
            self._room += 1
        return None

    async def acquire(self, timeout_ms: int) -> Any:
        """A connection for the caller alone, to be given back with `release` or `discard`.

        Raises TimeoutError when none came free in time, and what connecting raises.
        """
        connection = self.take()
        return await self._wait(timeout_ms) if connection is None else connection

    def release(self, connection: Any) -> None:
        """Gives a connection back whose use ended cleanly."""
        if connection.is_closed():
            self._give_room()
        elif self._closed:
            connection.terminate()
        elif waiter := self._next_in_line():
            waiter.set_result(connection)
        else:
            self._idle.append((connection, time.monotonic()))

    def discard(self, connection: Any) -> None:
        """Throws a connection away, as its state is unknown."""
        connection.terminate()
        self._give_room()

    async def close(self) -> None:
        """Closes what is idle now and the rest when it is given back."""
        self._closed = True
        while waiter := self._next_in_line():
            waiter.set_exception(asyncpg.InterfaceError("the pool is closed"))
        connecting = tuple(self._connecting)
        for task in connecting:
            task.cancel()
        await asyncio.gather(*connecting, return_exceptions=True)
        idle, self._idle = self._idle, []
        for connection, _ in idle:
            # A server that does not say goodbye in time is left without one.
            with suppress(*_LOST):
                await connection.close(timeout=1)

    async def _wait(self, timeout_ms: int) -> Any:
        """The next connection that is given back or made."""
        waiter: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self._grow()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await waiter
        except (TimeoutError, asyncio.CancelledError):
            # Handed over in the very moment in which we gave up.
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self.release(waiter.result())
            raise

    def _next_in_line(self) -> asyncio.Future[Any] | None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                return waiter
        return None

    def _give_room(self) -> None:
        self._room += 1
        if any(not waiter.done() for waiter in self._waiting):
            self._grow()

    def _grow(self) -> None:
        """Begins to make one more connection, where there is room."""
        if self._room and not self._closed:
            self._room -= 1
            task = asyncio.get_running_loop().create_task(self._add())
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    async def _add(self) -> None:
        try:
            connection = await self._connect()
        except Exception as failure:
            if waiter := self._next_in_line():
                waiter.set_exception(failure)
            self._give_room()
        else:
            self.release(connection)


class Use:
    """One use of a connection: given back when it ends cleanly, thrown away when it does not.

    An answer of the server that says no is a clean end; an interruption is not, and neither is an
    answer that ends the session: the driver would notice that only after the next use has begun.
    """

    __slots__ = ("_connection", "_pool", "_timeout_ms")

    def __init__(self, pool: Pool, timeout_ms: int) -> None:
        self._pool = pool
        self._timeout_ms = timeout_ms

    async def __aenter__(self) -> Any:
        # Mostly there is one, and nothing to wait for.
        self._connection = self._pool.take() or await self._pool.acquire(self._timeout_ms)
        return self._connection

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        connection = self._connection
        if not _is_clean(exception) or connection.is_in_transaction():
            self._pool.discard(connection)
        else:
            self._pool.release(connection)


def _is_clean(exception: BaseException | None) -> bool:
    if isinstance(exception, asyncpg.PostgresError):
        return exception.severity_en not in _SESSION_ENDING
    return exception is None or isinstance(exception, HeadgateError)
