"""What was asked of a worker: to go on, to drain, or to let go of everything now."""

import asyncio
from collections.abc import Awaitable
from typing import Any


class Shutdown:
    """Grows stricter only. To be used on the worker's event loop."""

    def __init__(self) -> None:
        self._draining = asyncio.Event()
        self._limited = asyncio.Event()
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

        A limit that follows a drain without one counts.
        """
        if limit_ms is not None and not self._limited.is_set():
            self._limit_ms = limit_ms
            self._limited.set()
        self._draining.set()

    def release(self) -> None:
        """Let go of everything now."""
        self._draining.set()
        self._releasing.set()

    async def requested(self, limit_ms: float | None = None) -> None:
        """Returns when the worker is to end, or after the limit."""
        await _first(self._draining.wait(), limit_ms=limit_ms)

    async def drained(self, done: "asyncio.Future[Any]") -> None:
        """Waits for `done` as long as the drain may take, from now or from when that is said."""
        if not self._limited.is_set():
            await _first(done, self._limited.wait(), self._releasing.wait(), limit_ms=None)
        if not done.done():
            await self.wait(done, self._limit_ms)

    async def wait(self, done: Awaitable[object], limit_ms: float | None) -> None:
        """Waits for `done`, at most `limit_ms`, and no longer once everything is to be let go."""
        await _first(done, self._releasing.wait(), limit_ms=limit_ms)


async def _first(*awaited: Awaitable[object], limit_ms: float | None) -> None:
    futures = [asyncio.ensure_future(each) for each in awaited]
    own = [future for future, each in zip(futures, awaited, strict=True) if future is not each]
    try:
        await asyncio.wait(
            futures,
            timeout=None if limit_ms is None else limit_ms / 1000,
            return_when=asyncio.FIRST_COMPLETED,
        )
    finally:
        for future in own:
            future.cancel()
