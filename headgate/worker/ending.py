"""How a worker lets go of what it holds: in order while there is time, else at once."""

import asyncio
import logging
from typing import Final

from headgate.model.errors import StoreUnavailable
from headgate.worker.acknowledgements import Acknowledgements
from headgate.worker.heartbeat import Heartbeat
from headgate.worker.shutdown import Shutdown
from headgate.worker.slots import Slots
from headgate.worker.stop import Stop

# What the end of a worker may take beyond waiting for handlers, in milliseconds. Together with the
# grace for cancelled handlers it stays below five seconds, and below two when it must be quick.
_FLUSH_MS: Final = 1_500
_GOODBYE_MS: Final = 1_000
_QUICK_GRACE_MS: Final = 200
_QUICK_FLUSH_MS: Final = 800
_QUICK_GOODBYE_MS: Final = 300

logger = logging.getLogger("headgate.worker")


class Ending:
    """The end of one worker. Every step is bounded, and shorter once a release was asked for."""

    def __init__(
        self,
        *,
        shutdown: Shutdown,
        slots: Slots,
        acknowledgements: Acknowledgements,
        heartbeat: Heartbeat,
        grace_ms: int,
    ) -> None:
        self._shutdown = shutdown
        self._slots = slots
        self._acknowledgements = acknowledgements
        self._heartbeat = heartbeat
        self._grace_ms = grace_ms
        self.abandoned = 0
        """How many handlers were still running when their jobs were released."""

    async def drain(self, admission: "asyncio.Task[None]", flushing: "asyncio.Task[None]") -> None:
        """Lets handlers finish as long as was granted, releases the rest, sends every report."""
        # Jobs that the last admission brings are given back at once.
        self._slots.close()
        finished = asyncio.create_task(self._finished(admission))
        if self._slots.running:
            logger.info("the worker drains: %d jobs run", len(self._slots.running))
        await self._shutdown.drained(finished)
        if not finished.done():
            self._stop()
            await self._shutdown.wait(finished, self._grace_ms)
        if not finished.done() and self._shutdown.releasing:
            await asyncio.wait((finished,), timeout=_QUICK_GRACE_MS / 1000)
        finished.cancel()
        admission.cancel()
        self._abandon()
        self._acknowledgements.close()
        await self._shutdown.wait(flushing, _FLUSH_MS)
        if self._shutdown.releasing:
            await asyncio.wait((flushing,), timeout=_QUICK_FLUSH_MS / 1000)
        flushing.cancel()

    async def finish(self) -> None:
        """Says goodbye, and lets go of everything first when there was no time to drain.

        Raises `StoreUnavailable` when reports were not delivered or the store is away.
        """
        if not self._acknowledgements.closed:
            self._slots.close()
            self._stop()
            # One step for what was cancelled, to clean up without waiting for anything.
            await asyncio.sleep(0)
            self._abandon()
            await self._acknowledgements.drain(_QUICK_FLUSH_MS)
        quick = self._shutdown.releasing
        told = await self._heartbeat.stop(_QUICK_GOODBYE_MS if quick else _GOODBYE_MS)
        if len(self._acknowledgements):
            raise StoreUnavailable(
                f"{len(self._acknowledgements)} reports could not be delivered;"
                " these jobs run again when their leases end"
            )
        if not told and not quick:
            raise StoreUnavailable("gone when the worker ended")

    async def _finished(self, admission: "asyncio.Task[None]") -> None:
        await asyncio.wait((admission,))
        await self._slots.idle.wait()

    def _stop(self) -> None:
        running = self._slots.running
        if running:
            logger.info("the worker releases %d running jobs", len(running))
        for attempt in running:
            attempt.stop(Stop.RELEASED)

    def _abandon(self) -> None:
        """Ends what still runs for the store: handlers that do not react to being cancelled."""
        left = self._slots.running
        self.abandoned += len(left)
        for attempt in left:
            attempt.abandon(Stop.RELEASED)
