"""One connection that listens for wake-ups, shared by everything in the process that waits.

It reconnects by itself, probes its own connection so that a half-open socket is found, and wakes
everybody after a gap, since what was notified meanwhile is unknown. Without it (a transaction
pooler, or by choice) waiting is sleeping, and polling does the work.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

import asyncpg
from tenacity import AsyncRetrying, retry_if_exception_type, wait_random_exponential

from headgate.queries.wakeups import wakeup_channel
from headgate.store.database import connection_options
from headgate.store.failures import DRIVER_FAILURES
from headgate.store.settings import StoreSettings

_PROBE_SECONDS: Final = 15
_ANY: Final = ""


class Subscription:
    """The queues one waiter cares for, and which of them were woken since it last looked."""

    def __init__(
        self, listener: "Listener", queues: Iterable[str], on_wake: Callable[[], None] | None
    ) -> None:
        self._listener = listener
        self._queues = frozenset(queues)
        self._on_wake = on_wake
        self._woken: set[str] = set()
        self._event = asyncio.Event()

    def __enter__(self) -> "Subscription":
        self._listener._subscriptions.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._listener._subscriptions.discard(self)

    async def wait(self, timeout_ms: int) -> set[str]:
        """The queues woken since the last call, waiting for one; empty after the time.

        "" among them means that any queue may have been: a connection was made anew.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 1000):
                await self._event.wait()
        self._event.clear()
        woken, self._woken = self._woken, set()
        return woken

    def _notice(self, queue: str) -> None:
        if queue == _ANY or not self._queues or queue in self._queues:
            if self._on_wake is not None:
                self._on_wake()
                return
            self._woken.add(queue)
            self._event.set()


class Listener:
    """Fans the notifications of one connection out to its subscriptions."""

    def __init__(self, settings: StoreSettings) -> None:
        self._settings = settings
        self.enabled = settings.notify and not settings.pooler
        self._channel = wakeup_channel(settings.schema)
        self._subscriptions: set[Subscription] = set()
        self._running: asyncio.Task[None] | None = None
        self._connected = asyncio.Event()

    def subscribe(
        self, queues: Iterable[str] = (), on_wake: Callable[[], None] | None = None
    ) -> Subscription:
        """A subscription to `queues`, or to all; use it as a context manager. With `on_wake`, which
        is called whenever one of them is woken, there is nothing to wait for.
        """
        if self.enabled and self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._listen_forever())
        return Subscription(self, queues, on_wake)

    async def connected(self, timeout_ms: int) -> bool:
        """Whether wake-ups are heard, waiting for that until the time is over."""
        if self.enabled:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_ms / 1000):
                    await self._connected.wait()
        return self._connected.is_set()

    async def close(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    async def _listen_forever(self) -> None:
        while True:
            async for attempt in AsyncRetrying(
                retry=retry_if_exception_type(DRIVER_FAILURES),
                wait=wait_random_exponential(multiplier=0.1, max=5),
            ):
                with attempt:
                    await self._listen_once()

    async def _listen_once(self) -> None:
        """Listens until the connection is lost; returns then, or raises what the driver did."""
        connection = await asyncpg.connect(**connection_options(self._settings))
        lost = asyncio.Event()
        connection.add_termination_listener(lambda _: lost.set())
        try:
            await connection.add_listener(self._channel, self._on_notification)
            self._notice(_ANY)
            self._connected.set()
            while not lost.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(_PROBE_SECONDS):
                        await lost.wait()
                if not lost.is_set():
                    await connection.fetchval("SELECT 1", timeout=_PROBE_SECONDS)
        finally:
            self._connected.clear()
            connection.terminate()

    def _on_notification(self, _connection: Any, _pid: int, _channel: str, payload: object) -> None:
        self._notice(str(payload))

    def _notice(self, queue: str) -> None:
        for subscription in self._subscriptions:
            subscription._notice(queue)
