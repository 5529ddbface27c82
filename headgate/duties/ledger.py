"""Folds the append-only ledger of counts into the rows that readers add up."""

from headgate.store.store import Store


class LedgerFolding:
    """Keeps the unfolded part of the ledger short; the counts are exact with or without it."""

    name = "ledger"
    interval_ms = 1_000
    batch = 5_000

    async def run_once(self, store: Store) -> int:
        return await store.upkeep.fold_ledger(self.batch)
