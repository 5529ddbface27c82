"""What goes when its time is over, and the archive that keeps some of it for longer."""

import re
from typing import Any, Final

import msgspec

from headgate.model.errors import InvalidRequest
from headgate.model.limits import check_characters, is_storable
from headgate.model.page import check_page_limit
from headgate.model.retention import (
    ArchivedJob,
    ArchivePage,
    Evicted,
    RetentionPeriods,
    judge_archive_policy,
)
from headgate.queries.retention import (
    archived_jobs,
    clear_archive_policy,
    evict_dead_letters,
    evict_retained,
    prune,
    prune_archive,
    roll_up,
    set_archive_policy,
)
from headgate.store.database import Executor

_NEWEST: Final = 2**63 - 1
_CURSOR: Final = re.compile(r"([0-9]{1,18})-(.+)", re.DOTALL)

_decode_errors: Final = msgspec.json.Decoder(list[dict[str, Any]]).decode


class Retention:
    """Evictions and prunes, each a bounded batch, and archive policies.

    Any number of processes may run them at once. All methods raise `StoreUnavailable`.
    """

    def __init__(self, database: Executor) -> None:
        self._database = database

    async def evict_retained(self, limit: int) -> list[Evicted]:
        """Deletes up to `limit` jobs whose own retention is over, longest over first.

        A job whose throttle window is open stays until its end. Quarantined jobs are never evicted.
        """
        _positive(limit)
        rows = await self._database.fetch(evict_retained(), {"batch_size": limit})
        return [Evicted(*row) for row in rows]

    async def evict_dead_letters(self, limit: int, kept_ms: int) -> list[Evicted]:
        """Deletes up to `limit` archived, cancelled or undecodable jobs without a retention of
        their own that ended `kept_ms` ago; none when that is 0.
        """
        _positive(limit)
        if not kept_ms:
            return []
        rows = await self._database.fetch(
            evict_dead_letters(), {"batch_size": limit, "kept_ms": kept_ms}
        )
        return [Evicted(*row) for row in rows]

    async def prune(self, periods: RetentionPeriods, limit: int) -> dict[str, int]:
        """Deletes up to `limit` records of each kind that are past their period; how many, by kind.

        Also archived jobs past the retention that their archive had at their time.
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
        pruned: dict[str, int] = {}
        for name, statement in statements.items():
            parameters = {"batch_size": limit, "kept_ms": kept.get(name)}
            [row] = await self._database.fetch(statement, parameters)
            pruned[name] = row["n"]
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

    async def set_archive_policy(self, queue: str, archive_retention_ms: int) -> None:
        """Keeps what is evicted of the queue from now on in the archive, for so long.

        What was archived before keeps the retention it had. Raises `InvalidRequest`.
        """
        judge_archive_policy(queue, archive_retention_ms)
        await self._database.fetch(
            set_archive_policy(),
            {"wanted_queue": queue, "new_retention_ms": archive_retention_ms},
        )

    async def clear_archive_policy(self, queue: str) -> None:
        """Archives nothing more of the queue. What is archived stays for its time."""
        check_characters("queue", queue)
        await self._database.fetch(clear_archive_policy(), {"wanted_queue": queue})

    async def archive(self, queue: str, *, limit: int, cursor: str | None = None) -> ArchivePage:
        """A page of what was evicted of the queue, last first, without payloads.

        `limit` is between 1 and 200. Raises `InvalidRequest` for another one and for a cursor that
        no page gave.
        """
        check_page_limit(limit)
        before_ms, before_ulid = _NEWEST, ""
        if cursor is not None:
            place = _CURSOR.fullmatch(cursor)
            if place is None or not is_storable(cursor):
                raise InvalidRequest("bad cursor")
            before_ms, before_ulid = int(place[1]), place[2]
        if not is_storable(queue):
            return ArchivePage(jobs=[], next_cursor=None)
        rows = await self._database.fetch(
            archived_jobs(),
            {
                "wanted_queue": queue,
                "before_ms": before_ms,
                "before_ulid": before_ulid,
                "page_size": limit + 1,
            },
        )
        jobs = []
        for row in rows[:limit]:
            fields = dict(row)
            errors = _decode_errors(fields.pop("errors"))
            jobs.append(ArchivedJob(id=fields.pop("ulid"), errors=errors, **fields))
        more = len(rows) > limit
        return ArchivePage(
            jobs=jobs,
            next_cursor=f"{jobs[-1].evicted_at_ms}-{jobs[-1].id}" if more else None,
        )


def _positive(limit: int) -> None:
    if limit < 1:
        raise InvalidRequest("limit must be >= 1")
