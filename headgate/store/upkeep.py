"""What keeps the store healthy by itself: reclaim, promotion, folding. Each pass is bounded."""

from collections.abc import Sequence

from headgate.model.errors import InvalidRequest
from headgate.model.job import Reclaimed
from headgate.queries.ledger import drop_empty_counts, drop_empty_queue_counts, fold_ledger
from headgate.queries.promotion import due_jobs, promote_due
from headgate.queries.reclaim import WINDOW, reclaim, running_window
from headgate.store.database import Database, Row
from headgate.store.isolation import Isolation
from headgate.store.notifier import Notifier


class Upkeep:
    """The sweeps that duties run. Any number of processes may run them at once."""

    def __init__(self, database: Database, notifier: Notifier) -> None:
        self._database = database
        self._notifier = notifier
        # Where the next look at the running jobs goes on; losing it costs one round.
        self._reclaimed_up_to = 0
        self._reclaiming = Isolation[int]("reclaim")
        self._promoting = Isolation[int]("promotion")

    async def reclaim_expired(self, limit: int) -> list[Reclaimed]:
        """Takes up to `limit` jobs back whose lease expired among the next window of running ones.

        An attempt that is being acknowledged right now is left to its holder, and a row that cannot
        be written is passed over. Raises `StoreUnavailable`.
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
        passed_over = set(self._reclaiming.passed_over)

        async def some(row_ids: Sequence[int]) -> list[Row]:
            return await self._database.fetch(reclaim(), {"row_id_array": list(row_ids)})

        rows = await self._reclaiming.each(
            [row_id for row_id in expired[:limit] if row_id not in passed_over], some
        )
        return [Reclaimed(*row.values()) for row in rows]

    async def promote_due(self, limit: int) -> int:
        """Makes up to `limit` due jobs available and wakes their queues; how many there were.

        A row that cannot be written is passed over.
        """
        _positive(limit)
        rows = await self._promoting.sweep(
            self._database,
            together=promote_due(),
            candidates=due_jobs(),
            named=promote_due(named=True),
            batch_size=limit,
        )
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
