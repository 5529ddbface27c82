"""Lets go of what was kept for long enough: jobs that ended, and records of all kinds."""

import logging
from collections import Counter
from collections.abc import Callable

from headgate.model.retention import RetentionPeriods
from headgate.store.store import Store
from headgate.telemetry.events import Event, Evicted
from headgate.telemetry.telemetry import ignore

logger = logging.getLogger("headgate.duties")


class Evictions:
    """Deletes jobs whose retention is over: their own, or that of dead letters."""

    name = "retention"
    interval_ms = 1_000
    # Nobody waits for it, and a claim may wait for as long as a batch has the processor.
    batch = 100

    def __init__(
        self,
        periods: RetentionPeriods | None = None,
        on_event: Callable[[Event], None] = ignore,
    ) -> None:
        self._on_event = on_event
        self._kept_ms = (periods or RetentionPeriods()).dead_letters_ms

    async def run_once(self, store: Store) -> int:
        retained = await store.retention.evict_retained(self.batch)
        letters = await store.retention.evict_dead_letters(self.batch, self._kept_ms)
        if retained:
            logger.info("evicted %d jobs whose retention is over", len(retained))
        if letters:
            logger.info("evicted %d dead letters", len(letters))
        for queue, count in Counter(job.queue for job in [*retained, *letters]).items():
            self._on_event(Evicted(queue, count))
        return len(retained) + len(letters)


class Pruning:
    """Deletes records that nobody needs any more; counts of minutes become counts of hours."""

    name = "pruning"
    interval_ms = 5_000
    batch = 1_000

    def __init__(self, periods: RetentionPeriods | None = None) -> None:
        self._periods = periods or RetentionPeriods()

    async def run_once(self, store: Store) -> int:
        pruned = await store.retention.prune(self._periods, self.batch)
        rolled_up = await store.retention.roll_up(self._periods, self.batch)
        return sum(pruned.values()) + rolled_up
