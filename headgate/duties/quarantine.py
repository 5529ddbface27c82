"""Parks the jobs that wait with a quarantined fingerprint."""

import logging

from headgate.store.store import Store

logger = logging.getLogger("headgate.duties")


class QuarantineSweep:
    """Moves waiting jobs of quarantined fingerprints to `quarantined`, where everybody sees them.

    The gate lets none of them pass in the meantime.
    """

    name = "quarantine"
    interval_ms = 1_000
    batch = 1_000

    async def run_once(self, store: Store) -> int:
        parked = await store.quarantine.sweep(self.batch)
        if parked:
            logger.warning("parked %d waiting jobs of quarantined fingerprints", parked)
        return parked
