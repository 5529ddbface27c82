"""Folds the append-only ledger of counts into the rows that readers add up."""

from typing import Final

from headgate.store.store import Store

_BUSY_MS: Final = 250
_IDLE_MS: Final = 1_000


class LedgerFolding:
    """Keeps the unfolded part of the ledger short; the counts are exact with or without it.

    While jobs come and go it folds little at a time: the fold of a whole second keeps a processor
    for longer than a claim takes beside it.
    """

    name = "ledger"
    batch = 5_000

    def __init__(self) -> None:
        self.interval_ms = _IDLE_MS

    async def run_once(self, store: Store) -> int:
        folded = await store.upkeep.fold_ledger(self.batch)
        self.interval_ms = _BUSY_MS if folded else _IDLE_MS
        return folded
