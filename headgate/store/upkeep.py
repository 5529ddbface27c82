"""What keeps the store healthy by itself: reclaim, promotion, folding. Each pass is bounded."""

from headgate.model.errors import InvalidRequest
from headgate.model.job import Reclaimed
from headgate.queries.ledger import drop_empty_counts, drop_empty_queue_counts, fold_ledger
from headgate.queries.promotion import promote_due
from headgate.queries.reclaim import WINDOW, reclaim, running_window
from headgate.store.database import Database
from headgate.store.notifier import Notifier


class Upkeep:
    """The sweeps that duties run. Any number of processes may run them at once."""

    def __init__(self, database: Database, notifier: Notifier) -> None:
        self._database = database
        self._notifier = notifier
        # Where the next look at the running jobs goes on; losing it costs one round.
        self._reclaimed_up_to = 0

    async def reclaim_expired(self, limit: int) -> list[Reclaimed]:
        """Takes up to `limit` jobs back whose lease expired among the next window of running ones.

        An attempt that is being acknowledged right now is left to its holder. Raises
        `StoreUnavailable`.
        """
        _positive(limit)
        window = await self._database.fetch(running_window(), {"after_id": self._reclaimed_up_to})
        expired = [row["id"] for row in window if row["expired"]]
        if len(expired) > limit:
            self._reclaimed_up_to = expired[limit - 1]
        else:
            self._reclaimed_up_to = window[-1]["id"] if len(window) == WINDOW else 0
        if not expired:
            return []
        rows = await self._database.fetch(reclaim(), {"row_id_array": expired[:limit]})
        return [Reclaimed(*row.values()) for row in rows]

    async def promote_due(self, limit: int) -> int:
        """Makes up to `limit` due jobs available and wakes their queues; how many there were."""
        _positive(limit)
        rows = await self._database.fetch(promote_due(), {"batch_size": limit})
        self._notifier.wake({row["queue"] for row in rows})
        return len(rows)

    async def fold_ledger(self, limit: int) -> int:
        """Folds up to `limit` ledger rows into the counts; how many there were."""
        _positive(limit)
        row = (await self._database.fetch(fold_ledger(), {"batch_size": limit}))[0]
        if row["queues"]:
            await self._database.fetch(
                drop_empty_counts(),
                {"queue_array": row["queues"], "partition_array": row["partition_keys"]},
            )
        if row["empty_queues"]:
            await self._database.fetch(
                drop_empty_queue_counts(), {"queue_array": row["empty_queues"]}
            )
        folded: int = row["folded"]
        return folded


def _positive(limit: int) -> None:
    if limit < 1:
        raise InvalidRequest("limit must be >= 1")
