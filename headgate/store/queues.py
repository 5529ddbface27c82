"""Queues: how they stand, and what operators set on them."""

from typing import Final

import msgspec

from headgate.model.backlog import age_ms, time_to_drain_ms
from headgate.model.errors import InvalidRequest
from headgate.model.limits import MAX_INT32, MAX_MS, check_name, is_storable
from headgate.model.page import Page, PageRequest
from headgate.model.policy import MAX_INT64
from headgate.model.queue import (
    BlockedJobs,
    BlockReasons,
    HistoryBucket,
    Partition,
    QueueBacklog,
    QueueStatistics,
    QuietGroups,
    StateCounts,
)
from headgate.queries.blocked import blocked_jobs
from headgate.queries.clock import MINUTE_MS
from headgate.queries.counts import count_jobs
from headgate.queries.history import MAX_BUCKETS, history
from headgate.queries.memory import MAX_JOBS, sample_memory
from headgate.queries.partitions import waiting_partitions
from headgate.queries.queue_settings import (
    clear_enqueue_limit,
    set_enqueue_limit,
    set_paused,
    set_weight,
)
from headgate.queries.queues import queue_backlogs, queue_statistics
from headgate.store.database import Executor, Row

_decode_counts: Final = msgspec.json.Decoder(dict[str, int]).decode


class Queues:
    """What there is to know of queues, and to say about them. None needs to be made first.

    All methods raise `StoreUnavailable`; those that change something refuse a name that no row can
    hold with `InvalidRequest`.
    """

    def __init__(self, database: Executor) -> None:
        self._database = database

    async def page(self, request: PageRequest, queue: str | None = None) -> Page[QueueStatistics]:
        """A page of all queues by name: those with jobs, and those that something is set on. With
        `queue` that one alone, if it is among them.

        Raises `InvalidRequest`.
        """
        parameters = request.parameters()
        if queue is None:
            rows = await self._database.fetch(queue_statistics(one_queue=False), parameters)
        elif is_storable(queue):
            rows = await self._database.fetch(
                queue_statistics(one_queue=True), {**parameters, "wanted_queue": queue}
            )
        else:
            rows = []
        return request.page([_statistics(row) for row in rows])

    async def backlogs(self, request: PageRequest) -> Page[QueueBacklog]:
        """A page of the same queues with how much work they have, which takes a fraction of the
        time: partitions and lanes are not looked at.

        Raises `InvalidRequest`.
        """
        rows = await self._database.fetch(queue_backlogs(), request.parameters())
        return request.page([_backlog(row) for row in rows])

    async def counts(self, queue: str | None = None) -> StateCounts:
        """How many jobs are in each state, of one queue or of all."""
        if queue is None:
            rows = await self._database.fetch(count_jobs(one_queue=False))
        elif is_storable(queue):
            rows = await self._database.fetch(count_jobs(one_queue=True), {"wanted_queue": queue})
        else:
            rows = []
        return StateCounts(
            {row["state"]: row["n"] for row in rows if row["state"] is not None},
            bool(rows) and rows[0]["approximate"],
        )

    async def history(
        self, queue: str | None = None, *, since_ms: int = 0, bucket_ms: int = MINUTE_MS
    ) -> list[HistoryBucket]:
        """What arrived and was completed from `since_ms` on, oldest first, without empty buckets;
        of one queue, or of all together.

        At most 10,000 buckets, the last ones up to now, and of all queues those of the newest
        100,000 minutes of a queue. Raises `InvalidRequest` for buckets narrower than a minute.
        """
        if bucket_ms < MINUTE_MS:
            raise InvalidRequest("bucket_ms must be >= 60000 (the stored granularity)")
        if queue is not None and not is_storable(queue):
            return []
        width_ms = min(bucket_ms, MAX_MS)
        parameters: dict[str, str | int] = {
            "since_ms": max(0, min(since_ms, MAX_MS)),
            "width_ms": width_ms,
            "span_ms": width_ms * MAX_BUCKETS,
        }
        if queue is not None:
            parameters["wanted_queue"] = queue
        rows = await self._database.fetch(history(one_queue=queue is not None), parameters)
        return [HistoryBucket(*row) for row in reversed(rows)]

    async def partitions(self, queue: str, request: PageRequest) -> Page[Partition]:
        """A page of the partitions with available jobs, by key. Raises `InvalidRequest`."""
        parameters = request.parameters()
        rows = []
        if is_storable(queue):
            rows = await self._database.fetch(
                waiting_partitions(), {"wanted_queue": queue, **parameters}
            )
        return request.page([Partition(row["partition_key"], 0, row["waiting"]) for row in rows])

    async def blocked(self, queue: str) -> BlockedJobs:
        """How many of the waiting jobs are held by what."""
        if not is_storable(queue):
            return BlockedJobs(
                queue=queue, waiting=0, reasons=BlockReasons(), live_workers=0, approximate=False
            )
        row = (await self._database.fetch(blocked_jobs(), {"wanted_queue": queue}))[0]
        return BlockedJobs(
            queue=queue,
            waiting=row["due_later"] + row["available"],
            reasons=BlockReasons(
                queue_paused=row["available"] if row["paused"] else 0,
                schedule=row["due_later"],
                quarantine=row["quarantine"],
                rate_class=row["rate_class"],
                concurrency_limit=row["concurrency_limit"],
                sticky_worker=row["sticky_worker"],
            ),
            live_workers=row["live_workers"],
            approximate=row["approximate"]
            or (not row["paused"] and row["examined"] < row["available"]),
        )

    async def set_weight(self, queue: str, weight: int) -> None:
        """Sets the share of the capacity that a queue gets among those that have work.

        Raises `InvalidRequest` for a weight outside 1 to 2147483647.
        """
        if weight < 1:
            raise InvalidRequest("weight must be >= 1")
        if weight > MAX_INT32:
            raise InvalidRequest("weight is too large")
        check_name("queue", queue)
        await self._database.fetch(set_weight(), {"wanted_queue": queue, "new_weight": weight})

    async def pause(self, queue: str) -> None:
        """Stops admission from a queue; jobs still come in, and what runs goes on."""
        check_name("queue", queue)
        await self._database.fetch(set_paused(paused=True), {"wanted_queue": queue})

    async def resume(self, queue: str) -> None:
        """Goes on with admission from a queue."""
        check_name("queue", queue)
        await self._database.fetch(set_paused(paused=False), {"wanted_queue": queue})

    async def set_enqueue_limit(self, queue: str, max_unfinished_jobs: int) -> None:
        """Refuses new jobs beyond so many unfinished ones; 0 refuses all of them.

        A queue that holds more already keeps them. Raises `InvalidRequest` for a limit that is
        negative or does not fit.
        """
        if max_unfinished_jobs < 0:
            raise InvalidRequest("max_unfinished_jobs must be >= 0")
        if max_unfinished_jobs > MAX_INT64:
            raise InvalidRequest("max_unfinished_jobs is too large")
        check_name("queue", queue)
        await self._database.fetch(
            set_enqueue_limit(), {"wanted_queue": queue, "new_limit": max_unfinished_jobs}
        )

    async def clear_enqueue_limit(self, queue: str) -> None:
        """Takes the limit of a queue back, if it has one."""
        check_name("queue", queue)
        await self._database.fetch(clear_enqueue_limit(), {"wanted_queue": queue})

    async def sample_memory(self, jobs_per_queue: int = 100) -> int:
        """Weighs the newest jobs of up to 200 queues; how many queues there were.

        `jobs_per_queue` counts as at least 1 and at most 1,000.
        """
        size = max(1, min(jobs_per_queue, MAX_JOBS))
        return len(await self._database.fetch(sample_memory(), {"sample_size": size}))


def _backlog(row: Row) -> QueueBacklog:
    seconds = row["elapsed_ms"] / 1000
    arrival_rate, drain_rate = (row["arrived"] or 0) / seconds, (row["completed"] or 0) / seconds
    unfinished = row["unfinished_jobs"] or 0
    return QueueBacklog(
        queue=row["queue"],
        unfinished_jobs=unfinished,
        by_state=_decode_counts(row["by_state"]) if row["by_state"] else {},
        arrival_rate=arrival_rate,
        drain_rate=drain_rate,
        time_to_drain_ms=time_to_drain_ms(unfinished, arrival_rate, drain_rate),
        paused=row["paused"],
        count_is_approximate=row["approximate"],
    )


def _statistics(row: Row) -> QueueStatistics:
    return QueueStatistics(
        **msgspec.structs.asdict(_backlog(row)),
        weight=row["weight"],
        max_unfinished_jobs=row["max_unfinished_jobs"],
        oldest_available_ms=_age(row, "oldest_at_ms"),
        memory_bytes=row["memory_bytes"],
        quiet_groups=_quiet_groups(row),
    )


def _quiet_groups(row: Row) -> QuietGroups:
    seconds = row["elapsed_ms"] / 1000
    arrival_rate, drain_rate = (
        max(0, (row[name] or 0) - (row[f"noisy_{name}"] or 0)) / seconds
        for name in ("arrived", "completed")
    )
    backlog = max(0, (row["unfinished_jobs"] or 0) - (row["noisy_backlog"] or 0))
    return QuietGroups(
        arrival_rate=arrival_rate,
        drain_rate=drain_rate,
        time_to_drain_ms=time_to_drain_ms(backlog, arrival_rate, drain_rate),
        oldest_available_ms=_age(row, "quiet_oldest_at_ms"),
        noisy_partitions=row["noisy_partitions"] or 0,
        approximate=bool(row["partitions_cut"]),
    )


def _age(row: Row, name: str) -> int | None:
    at_ms: int | None = row[name]
    return None if at_ms is None else age_ms(row["now_ms"], at_ms)
