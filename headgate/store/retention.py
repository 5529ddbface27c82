"""What goes when its time is over."""

from collections.abc import Sequence

from headgate.model.errors import InvalidRequest
from headgate.model.retention import Evicted, RetentionPeriods
from headgate.queries.archive import prune_archive
from headgate.queries.retention import (
    dead_letters,
    evict_dead_letters,
    evict_retained,
    prune,
    retained_jobs,
    roll_up,
)
from headgate.store.database import Executor, Row
from headgate.store.isolation import Isolation


class Retention:
    """Evictions and prunes, each a bounded batch.

    Any number of processes may run them at once. All methods raise `StoreUnavailable`.
    """

    def __init__(self, database: Executor) -> None:
        self._database = database
        self._retained = Isolation[int]("eviction")
        self._dead_letters = Isolation[int]("eviction of dead letters")
        self._pruning = Isolation[str]("pruning", subject="a record of")

    async def evict_retained(self, limit: int) -> list[Evicted]:
        """Deletes up to `limit` jobs whose own retention is over, longest over first.

        A job whose throttle window is open stays until its end. Quarantined jobs are never evicted.
        """
        _positive(limit)
        rows = await self._retained.sweep(
            self._database,
            together=evict_retained(),
            candidates=retained_jobs(),
            named=evict_retained(named=True),
            batch_size=limit,
        )
        return [Evicted(*row) for row in rows]

    async def evict_dead_letters(self, limit: int, kept_ms: int) -> list[Evicted]:
        """Deletes up to `limit` archived, cancelled or undecodable jobs without a retention of
        their own that ended `kept_ms` ago; none when that is 0.
        """
        _positive(limit)
        if not kept_ms:
            return []
        rows = await self._dead_letters.sweep(
            self._database,
            together=evict_dead_letters(),
            candidates=dead_letters(),
            named=evict_dead_letters(named=True),
            batch_size=limit,
            kept_ms=kept_ms,
        )
        return [Evicted(*row) for row in rows]

    async def prune(self, periods: RetentionPeriods, limit: int) -> dict[str, int]:
        """Deletes up to `limit` records of each kind that are past their period; how many, by kind.

        Also archived jobs past the retention that their archive had at their time. A kind whose
        records may not go keeps no other from it.
        """
        _positive(limit)
        minutes_ms, hours_ms = periods.minute_counters_ms, periods.hour_counters_ms
        kept = {
            # Minutes that are kept for longer than hours are not to go with them.
            "queue_counters": max(minutes_ms, hours_ms) if minutes_ms and hours_ms else 0,
            "partition_minutes": minutes_ms,
            "operations": periods.operations_ms,
            "workers": periods.workers_ms,
            "schedule_events": periods.schedule_events_ms,
            "effects": periods.effects_ms,
            "idempotency": periods.idempotency_ms,
            "enqueue_keys": periods.enqueue_keys_ms,
            "audit": periods.audit_ms,
        }
        statements = {name: prune(name) for name, kept_ms in kept.items() if kept_ms}
        statements["archive"] = prune_archive()

        async def some(kinds: Sequence[str]) -> list[Row]:
            [kind] = kinds
            parameters = {"batch_size": limit, "kept_ms": kept.get(kind)}
            return await self._database.fetch(statements[kind], parameters)

        pruned: dict[str, int] = {}
        passed_over = set(self._pruning.passed_over)
        for name in statements:
            if name in passed_over:
                continue
            rows = await self._pruning.each([name], some)
            pruned[name] = sum(row["n"] for row in rows)
        return pruned

    async def roll_up(self, periods: RetentionPeriods, limit: int) -> int:
        """Turns up to `limit` minutes of queues that are past their period into hours; how many."""
        _positive(limit)
        if not periods.minute_counters_ms:
            return 0
        [row] = await self._database.fetch(
            roll_up(), {"batch_size": limit, "kept_ms": periods.minute_counters_ms}
        )
        rolled_up: int = row["n"]
        return rolled_up


def _positive(limit: int) -> None:
    if limit < 1:
        raise InvalidRequest("limit must be >= 1")
