"""The places of the archive: a month gets its own before it begins, and loses it when empty."""

import logging

from headgate.store.store import Store

logger = logging.getLogger("headgate.duties")


class ArchiveMonths:
    """Keeps a place for the current month and the next ones in the archive.

    A month that has none when it begins costs nothing but its pruning as a whole.
    """

    name = "archive"
    interval_ms = 60_000
    # Counts months: with one that was made or dropped, it looks again.
    batch = 1

    async def run_once(self, store: Store) -> int:
        made = await store.archive.prepare_months()
        if made:
            logger.info("the archive has a place for %s", ", ".join(made))
        dropped = await store.archive.drop_empty_months()
        if dropped:
            logger.info("the archive holds nothing of %s any more", ", ".join(dropped))
        return len(made) + len(dropped)
