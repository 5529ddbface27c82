"""Tells workers that a queue has work, after the commit and never more than needed.

A notification takes a lock of the whole database until its commit, so it does not ride on the
producers' transactions: they leave the name of the queue here, and one task sends what has
gathered, each queue once per interval. Whoever enqueues less often than that waits for nothing.
Workers that just heard of many jobs have something to do: a queue that gets one batch after the
other is named less often. A lost notification costs a poll interval and nothing else.
"""

import asyncio
import time
from collections.abc import Collection
from contextlib import suppress
from typing import Final

from headgate.model.errors import StoreError
from headgate.queries.wakeups import notify, wakeup_channel
from headgate.store.database import Database, Session

_INTERVAL_SECONDS: Final = 0.005
# For how long the jobs of a batch are thought to last, which is at most a person's blink.
_SECONDS_PER_JOB: Final = 0.000_25
_LONGEST_SECONDS: Final = 0.025


class Notifier:
    """Gathers the names of woken queues and notifies each at most once per interval."""

    def __init__(self, database: Database, *, enabled: bool = True) -> None:
        self._database = database
        self._statement = notify(wakeup_channel(database.settings.schema))
        self._enabled = enabled
        self._woken: dict[str, int] = {}
        self._sending: asyncio.Task[None] | None = None
        self._rests_until = 0.0
        self._busy_until: dict[str, float] = {}

    def wake(self, queues: Collection[str], *, jobs: int = 1) -> None:
        """Notes that these queues have new work, so many `jobs` together. Returns at once."""
        if not self._enabled:
            return
        for queue in queues:
            self._woken[queue] = self._woken.get(queue, 0) + jobs // len(queues)
        if self._woken and self._sending is None:
            self._sending = asyncio.get_running_loop().create_task(self._send())

    async def close(self) -> None:
        """Sends what is left."""
        if self._sending is not None:
            await self._sending

    async def _send(self) -> None:
        try:
            while self._woken:
                # Only whoever comes too soon pays for a timer.
                rest = self._rests_until - time.monotonic()
                if rest > 0:
                    await asyncio.sleep(rest)
                self._rests_until = time.monotonic() + _INTERVAL_SECONDS
                queues = self._take_due()
                if queues:
                    with suppress(StoreError):
                        await self._database.fetch(self._statement, {"queues": queues})
        finally:
            self._sending = None

    def _take_due(self) -> list[str]:
        now = time.monotonic()
        self._busy_until = {
            queue: until for queue, until in self._busy_until.items() if until > now
        }
        queues = sorted(self._woken.keys() - self._busy_until.keys())
        for queue in queues:
            busy = min(self._woken.pop(queue) * _SECONDS_PER_JOB, _LONGEST_SECONDS)
            if busy > _INTERVAL_SECONDS:
                self._busy_until[queue] = now + busy
        return queues


class DeferredNotifier(Notifier):
    """Puts wake-ups off until a transaction is committed; without the commit there are none."""

    def __init__(self, notifier: Notifier, session: Session) -> None:
        self._notifier = notifier
        self._session = session

    def wake(self, queues: Collection[str], *, jobs: int = 1) -> None:
        woken = frozenset(queues)
        self._session.when_committed(lambda: self._notifier.wake(woken, jobs=jobs))

    async def close(self) -> None:
        """There is nothing of its own to send."""
