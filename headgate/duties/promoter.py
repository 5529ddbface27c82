"""Makes due what was waiting for its time: scheduled jobs and retries."""

from headgate.store.store import Store


class Promoter:
    """Makes scheduled and retryable jobs available when their time has come.

    The store wakes the queues that got work.
    """

    name = "promoter"
    interval_ms = 1_000
    batch = 1_000

    async def run_once(self, store: Store) -> int:
        return await store.upkeep.promote_due(self.batch)
