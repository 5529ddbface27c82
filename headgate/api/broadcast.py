"""One listener for all who follow events: what it hears is gathered and handed to each of them."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from headgate.api.errors import Refusal
from headgate.store.listener import Listener

WINDOW_MS: Final = 200
"""From the first wake-up on, so long is gathered what is handed out together."""

MAX_NAMES: Final = 1_000
"""More queues than this are not named to somebody who does not keep up."""

_ANY: Final = ""
_READY_MS: Final = 1_000
_FOREVER_MS: Final = 3_600_000


class Follower:
    """One who follows events. What is not fetched yet adds up, and never to more than a page."""

    def __init__(self) -> None:
        self._queues: set[str] = set()
        self._overflown = False
        self._news = asyncio.Event()
        self._closed = False

    async def next(self, timeout_ms: int) -> list[str] | None:
        """The queues that were active since the last call, sorted; waits for one.

        None when the time is over. An empty list means that any queue may have been: too many were,
        or the listener was away. Raises `EOFError` when the server ends.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 1000):
                await self._news.wait()
        if self._closed:
            raise EOFError
        if not self._news.is_set():
            return None
        self._news.clear()
        queues, self._queues = self._queues, set()
        overflown, self._overflown = self._overflown, False
        return [] if overflown else sorted(queues)

    def tell(self, queues: set[str], *, gap: bool) -> None:
        """Adds to what is to be fetched; with a `gap` nobody knows what else was active."""
        self._queues |= queues
        if gap or len(self._queues) > MAX_NAMES:
            self._overflown = True
            self._queues.clear()
        self._news.set()

    def close(self) -> None:
        """Ends the waiting, now and from now on."""
        self._closed = True
        self._news.set()


class Broadcaster:
    """Hands what the listener of a store hears to everybody who follows.

    It listens while somebody does. Where there is no listener (polling only), followers hear
    nothing and are not told otherwise.
    """

    def __init__(self, listener: Listener, max_followers: int) -> None:
        self._listener = listener
        self._max_followers = max_followers
        self._followers: set[Follower] = set()
        self._running: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def followers(self) -> int:
        """How many follow now."""
        return len(self._followers)

    @contextmanager
    def follow(self) -> Iterator[Follower]:
        """A new follower, until the block is left. Raises `Refusal` 503 when there are too many."""
        if len(self._followers) >= self._max_followers:
            raise Refusal(503, "too many event streams")
        follower = Follower()
        if self._closed:
            follower.close()
        self._followers.add(follower)
        if self._running is None and self._listener.enabled:
            self._running = asyncio.create_task(self._run())
        try:
            yield follower
        finally:
            self._followers.discard(follower)
            if not self._followers and self._running is not None:
                self._running.cancel()
                self._running = None

    async def ready(self) -> None:
        """Waits until wake-ups are heard, but for a second at most: an outage is no reason not to
        begin.
        """
        await self._listener.connected(_READY_MS)

    def close(self) -> None:
        """Ends every stream, and those that begin later: the server is about to stop."""
        self._closed = True
        for follower in self._followers:
            follower.close()

    async def _run(self) -> None:
        with self._listener.subscribe() as subscription:
            if await self._listener.connected(_READY_MS):
                # What was missed before that, nobody has waited for.
                self._tell(await subscription.wait(0) - {_ANY})
            while True:
                queues = await subscription.wait(_FOREVER_MS)
                if not queues:
                    continue
                await asyncio.sleep(WINDOW_MS / 1000)
                queues |= await subscription.wait(0)
                self._tell(queues)

    def _tell(self, queues: set[str]) -> None:
        for follower in self._followers if queues else ():
            follower.tell(queues - {_ANY}, gap=_ANY in queues)
