"""Takes back the jobs whose worker died: leases that ran out without a report."""

import logging
from collections.abc import Callable

from headgate.store.store import Store
from headgate.telemetry.events import Event, Quarantined
from headgate.telemetry.telemetry import ignore

logger = logging.getLogger("headgate.duties")


class Reclaimer:
    """Ends expired leases by the rules of the store, whatever kinds this process knows.

    An expired lease counts as a crash of the job. Crashes that reach the limit quarantine its
    fingerprint, which is an error line here; the others are warnings.
    """

    name = "reclaimer"
    interval_ms = 1_000
    # Short enough for a claim that comes meanwhile, and waits for the processor.
    batch = 50

    def __init__(self, on_event: Callable[[Event], None] = ignore) -> None:
        self._on_event = on_event

    async def run_once(self, store: Store) -> int:
        reclaimed = await store.upkeep.reclaim_expired(self.batch)
        for job in reclaimed:
            if job.quarantined:
                logger.error(
                    "job %s (%s) crashed %d times: fingerprint %s is quarantined",
                    job.job_id,
                    job.kind,
                    job.crash_attempt,
                    job.fingerprint,
                )
                self._on_event(Quarantined(job.fingerprint, job.crash_attempt))
            else:
                logger.warning(
                    "job %s (%s) lost its worker: crash %d", job.job_id, job.kind, job.crash_attempt
                )
        return len(reclaimed)
