"""The admission loop: asks the gate for as many jobs as there is room for."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from headgate.duties.outage import Backoff, OutageLog
from headgate.model.errors import StoreError, StoreUnavailable
from headgate.model.job import Claim
from headgate.store.store import Store
from headgate.worker.config import WorkerConfig
from headgate.worker.polling import Patience, PollWindow
from headgate.worker.slots import Slots

_OUTAGE_FLOOR_MS: Final = 50
_OUTAGE_CEILING_MS: Final = 5_000
_FAULT_CEILING_MS: Final = 60_000

logger = logging.getLogger("headgate.worker")


class AdmissionLoop:
    """Keeps the slots of a worker filled.

    An answer that fills most of what was asked is followed by the next question as soon as there is
    room. Otherwise the queues are nearly empty, and the loop rests: until a wake-up, or for a time
    that starts at the floor and doubles with every empty answer up to the ceiling, but not past the
    instant at which a rate class holds what a waiting job costs. Nothing but a wake-up shortens or
    restarts a rest, or under ceilings the end of an attempt. An outage of the store never ends the
    loop.
    """

    def __init__(
        self,
        store: Store,
        config: WorkerConfig,
        *,
        worker_id: str,
        slots: Slots,
        admitted: Callable[[Sequence[Claim]], None],
        window: PollWindow,
        outage: OutageLog,
    ) -> None:
        self._store = store
        self._config = config
        self._worker_id = worker_id
        self._slots = slots
        self._admitted = admitted
        self._window = window
        self._outage = outage
        self._patience = Patience(
            Backoff(
                config.poll_floor_ms,
                config.poll_ceiling_ms,
                multiplier=config.poll_multiplier,
                jitter=config.poll_jitter,
            )
        )
        self._failing = Backoff(_OUTAGE_FLOOR_MS, _OUTAGE_CEILING_MS)
        self._faulty = Backoff(_OUTAGE_FLOOR_MS, _FAULT_CEILING_MS)
        self._wake = asyncio.Event()
        self._freed = asyncio.Event()
        self._closing = asyncio.Event()
        self._quiet = False

    async def run(self) -> None:
        """Admits until closed. An admission under way is waited for, since it may bring jobs."""
        while not self._closing.is_set():
            asked = self._slots.wanted()
            if self._quiet or asked == 0:
                self._slots.room.clear()
                await self._slots.room.wait()
                continue
            self._wake.clear()
            self._freed.clear()
            try:
                await self._admit(asked)
            except StoreUnavailable as error:
                self._outage.failed("admission", error)
                await self._rest(self._failing.next_ms(), self._closing)
            except StoreError:
                logger.exception("admission failed")
                await self._rest(self._faulty.next_ms(), self._closing)

    async def listen(self) -> None:
        """Wakes the loop when one of its queues gets work; until cancelled."""
        with self._store.listener.subscribe(self._config.queues, self.wake):
            await asyncio.Event().wait()

    def wake(self) -> None:
        """There may be work now."""
        self._patience.reset()
        self._wake.set()
        self._freed.set()

    def freed(self) -> None:
        """An attempt is over and reported: its partition may have room now."""
        self._freed.set()

    def set_quiet(self, quiet: bool) -> None:
        """Stops asking for jobs, or begins again."""
        self._quiet = quiet
        self._slots.room.set()
        self.wake()

    def close(self) -> None:
        """Asks for no more jobs; `run` returns when the last answer is in."""
        self._closing.set()
        self._slots.room.set()
        self._wake.set()
        self._freed.set()

    async def _admit(self, asked: int) -> None:
        """Asks the gate once, and rests when the answer says that little is left."""
        try:
            claims = await self._store.gate.admit(
                self._worker_id, self._config.queues, asked, self._config.lease_ms
            )
        except StoreError:
            self._window.record(empty=True)
            raise
        self._window.record(empty=not claims)
        self._outage.succeeded()
        self._failing.reset()
        self._faulty.reset()
        if not claims:
            await self._rest_in_vain()
            return
        self._patience.reset()
        self._admitted(claims)
        if 2 * len(claims) < asked:
            await self._rest(self._config.poll_floor_ms, self._wake)

    async def _rest_in_vain(self) -> None:
        caller = self._worker_id, self._config.queues
        refill_ms = None if self._patience.timed else await self._store.gate.refill_ms(*caller)
        rest_ms = self._patience.rest_ms(refill_ms)
        if self._store.gate.is_crowded(*caller):
            # Ends of attempts count from the floor on: they may come quickly, and change nothing.
            floor_ms = min(rest_ms, self._config.poll_floor_ms)
            await self._rest(floor_ms, self._wake)
            await self._rest(rest_ms - floor_ms, self._freed)
        else:
            await self._rest(rest_ms, self._wake)

    async def _rest(self, rest_ms: float, until: asyncio.Event) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(rest_ms / 1000):
                await until.wait()
