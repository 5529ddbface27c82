"""Runs duties: holds each through its row in the database, works it off, hands it over."""

import asyncio
import logging
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from headgate.duties.loop import Loop
from headgate.duties.outage import Backoff, OutageLog
from headgate.model.errors import StoreError, StoreUnavailable
from headgate.store.store import Store

_MIN_LEASE_MS: Final = 5_000
_MAX_PHASE_MS: Final = 5_000
_RELEASE_SECONDS: Final = 0.5
_MAX_FAULT_PAUSE_MS: Final = 60_000
# After a full batch, a pause of so many times the time that it took.
_PAUSE: Final = 1.0

logger = logging.getLogger("headgate.duties")


def lease_ms(loop: Loop) -> int:
    """How long a duty stays with a holder that says nothing."""
    return max(2 * loop.interval_ms, _MIN_LEASE_MS)


async def work_off(store: Store, loop: Loop, holder: str, *, held: bool = False) -> bool:
    """Runs batches until a short one; false when another process holds the duty. One that was
    `held` after the last time is not asked for again: each report extends the lease.

    Between full ones it rests and leaves the server to the work itself: a backlog may take twice as
    long, a claim beside it may not. Raises `StoreError`.
    """
    held = held or await store.duties.claim(loop.name, holder, lease_ms(loop))
    while held:
        began = time.monotonic()
        handled = await loop.run_once(store)
        done = handled < loop.batch
        pause = _PAUSE * (time.monotonic() - began)
        held = await store.duties.report(
            loop.name,
            holder,
            lease_ms(loop),
            handled=handled,
            done=done,
            interval_ms=loop.interval_ms,
        )
        if done:
            break
        await asyncio.sleep(pause)
    return held


class DutyRunner:
    """Runs `loops` until cancelled, as `holder`; any number of processes may do the same.

    Each duty is held by one of them. A holder that dies or hangs loses it within the duty's lease,
    one that ends gives it back at once.
    """

    def __init__(
        self, store: Store, loops: Sequence[Loop], holder: str, *, outage: OutageLog | None = None
    ) -> None:
        self._store = store
        self._loops = loops
        self._holder = holder
        self._outage = outage or OutageLog(logger)

    async def run(self) -> None:
        """Runs until cancelled; then the duties that are held are free for others."""
        async with asyncio.TaskGroup() as group:
            for loop in self._loops:
                group.create_task(self._run(loop), name=f"headgate duty {loop.name}")

    async def run_until(self, resigned: asyncio.Event) -> None:
        """Runs until the event is set, or until cancelled, and lets go of the duties then."""
        running = asyncio.create_task(self.run())
        resigning = asyncio.create_task(resigned.wait())
        try:
            await asyncio.wait((running, resigning), return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                await running
        finally:
            resigning.cancel()
            running.cancel()
            await asyncio.wait((running,))

    async def _run(self, loop: Loop) -> None:
        # A fleet that starts together must not ask together.
        await asyncio.sleep(random.random() * min(loop.interval_ms, _MAX_PHASE_MS) / 1000)
        faults = Backoff(loop.interval_ms, _MAX_FAULT_PAUSE_MS)
        # Until the answer is known (None) the duty may be ours, and must be given back.
        ours: bool | None = False
        try:
            while True:
                try:
                    pause_ms = loop.interval_ms
                    held, ours = bool(ours), None
                    ours = await work_off(self._store, loop, self._holder, held=held)
                    # That of a holder as it was reported; else often enough to take the duty over
                    # within the lease of its holder.
                    pause_ms = loop.interval_ms if ours else lease_ms(loop) // 2
                    self._outage.succeeded()
                    faults.reset()
                except StoreUnavailable as error:
                    self._outage.failed(f"duty {loop.name}", error)
                except Exception:
                    logger.exception("duty %s failed", loop.name)
                    pause_ms = int(faults.next_ms())
                await asyncio.sleep(pause_ms * random.uniform(1, 1.1) / 1000)
        finally:
            if ours is not False:
                await self._release(loop)

    async def _release(self, loop: Loop) -> None:
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(_RELEASE_SECONDS):
                await self._store.duties.release(loop.name, self._holder)
