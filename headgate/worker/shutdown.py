"""What was asked of a worker: to go on, to drain, or to let go of everything now."""

import asyncio
from contextlib import suppress


class Shutdown:
    """Grows stricter only. To be used on the worker's event loop."""

    def __init__(self) -> None:
        self._draining = asyncio.Event()
        self._releasing = asyncio.Event()
        self._limit_ms: int | None = None

    @property
    def draining(self) -> bool:
        return self._draining.is_set()

    @property
    def releasing(self) -> bool:
        """Whether nothing that runs may be waited for any more."""
        return self._releasing.is_set()

    def drain(self, limit_ms: int | None) -> None:
        """Take nothing more and let what runs come to its end, within the limit if there is one.

        A limit on top of a drain without one is a limit.
        """
        if not self.draining or self._limit_ms is None:
            self._limit_ms = limit_ms
        self._draining.set()

    def release(self) -> None:
        """Let go of everything now."""
        self._draining.set()
        self._releasing.set()

    async def requested(self) -> None:
        """Returns when the worker is to end."""
        await self._draining.wait()

    async def requested_within(self, limit_ms: float) -> bool:
        """Waits for that at most `limit_ms`; whether it came."""
        return await set_within(self._draining, limit_ms)

    async def patience(self, done: asyncio.Event) -> bool:
        """Waits until `done` as long as was granted; whether it was done."""
        if self.releasing:
            return done.is_set()
        limit = None if self._limit_ms is None else self._limit_ms / 1000
        waits = [asyncio.create_task(event.wait()) for event in (done, self._releasing)]
        try:
            await asyncio.wait(waits, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return done.is_set()


async def set_within(event: asyncio.Event, limit_ms: float) -> bool:
    """Waits for the event at most `limit_ms`; whether it was set."""
    with suppress(TimeoutError):
        async with asyncio.timeout(limit_ms / 1000):
            await event.wait()
    return event.is_set()
