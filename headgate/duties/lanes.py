"""Sets the registry of lanes right, should anything ever have left it wrong."""

import logging

from headgate.store.store import Store

logger = logging.getLogger("headgate.duties")


class LaneRepair:
    """Registers lanes whose jobs nobody would find, and removes entries that nobody would meet.

    The first should never be needed, so it is a warning here. The second comes from workers that
    are gone, and from queues that nobody polls any more.
    """

    name = "lanes"
    interval_ms = 60_000
    batch = 500

    def __init__(self) -> None:
        # A round registers first and prunes then; were they mixed, no batch might ever be short.
        self._pruning = False

    async def run_once(self, store: Store) -> int:
        if not self._pruning:
            examined, registered = await store.lanes.register_forgotten(self.batch)
            if registered:
                logger.warning("registered %d lanes whose jobs nobody would have found", registered)
            self._pruning = examined < self.batch
            return self.batch
        entries, pruned = await store.lanes.prune_drained(self.batch)
        if pruned:
            logger.info("found %d drained lanes in the registry", pruned)
        self._pruning = entries == self.batch
        return entries
