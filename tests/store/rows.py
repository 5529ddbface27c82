"""Looking at rows behind the store's back, and starting attempts without a gate."""

from collections.abc import Iterable
from typing import Any, TypeAlias

import asyncpg

from headgate.model.job import Lease

Observer: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

HOUR_MS = 3_600_000

_START = """
UPDATE headgate_job SET state = 'running', fence = fence + 1, lease_id = $2, claimed_by = 'worker',
  claimed_at_ms = (extract(epoch from clock_timestamp()) * 1000)::bigint,
  lease_expires_at_ms = (extract(epoch from clock_timestamp()) * 1000)::bigint + $3,
  rate_charge = 1
WHERE ulid = ANY($1) AND state = 'available' RETURNING ulid, fence
"""

_WITHOUT_LANE = """
SELECT ulid FROM headgate_job AS job WHERE state = 'available' AND NOT EXISTS (
  SELECT FROM headgate_active_partition AS lane
  WHERE (lane.queue, lane.sticky_worker, lane.priority, lane.partition_key, lane.rate_class)
      = (job.queue, job.sticky_worker, job.priority, job.partition_key, job.rate_class))
"""

_WITHOUT_PARTITION = """
SELECT queue, partition_key FROM headgate_active_partition
EXCEPT SELECT queue, partition_key FROM headgate_inflight
"""


async def now_ms(observer: Observer) -> int:
    """The database's clock."""
    now: int = await observer.fetchval(
        "SELECT (extract(epoch from clock_timestamp()) * 1000)::bigint"
    )
    return now


async def job_row(observer: Observer, job_id: str) -> dict[str, Any] | None:
    """Every column of the job, or None."""
    row = await observer.fetchrow("SELECT * FROM headgate_job WHERE ulid = $1", job_id)
    return None if row is None else dict(row)


async def state_of(observer: Observer, job_id: str) -> str | None:
    """The state of the job; None when its row is gone."""
    state: str | None = await observer.fetchval(
        "SELECT state FROM headgate_job WHERE ulid = $1", job_id
    )
    return state


async def count_jobs(observer: Observer) -> int:
    count: int = await observer.fetchval("SELECT count(*) FROM headgate_job")
    return count


async def tags_of(observer: Observer, job_id: str) -> list[str]:
    rows = await observer.fetch(
        "SELECT tag FROM headgate_job_tag JOIN headgate_job ON id = job_id"
        " WHERE ulid = $1 ORDER BY tag",
        job_id,
    )
    return [row["tag"] for row in rows]


async def start(
    observer: Observer,
    job_ids: Iterable[str],
    *,
    lease_ms: int = HOUR_MS,
    lease_id: str = "lease",
) -> list[Lease]:
    """Admits available jobs without asking any policy; their leases, in order."""
    wanted = list(job_ids)
    rows = await observer.fetch(_START, wanted, lease_id, lease_ms)
    fences = {row["ulid"]: row["fence"] for row in rows}
    assert set(fences) == set(wanted), "only available jobs can be started"
    return [Lease(job_id, lease_id, fences[job_id]) for job_id in wanted]


async def assert_lanes(observer: Observer) -> None:
    """Every available job stands in a registered lane, every lane has the row of its partition."""
    assert await observer.fetch(_WITHOUT_LANE) == []
    assert await observer.fetch(_WITHOUT_PARTITION) == []


async def lanes(observer: Observer) -> set[tuple[str, str, int, str, str]]:
    """The registered lanes, in the order of their key."""
    rows = await observer.fetch(
        "SELECT queue, sticky_worker, priority, partition_key, rate_class"
        " FROM headgate_active_partition"
    )
    return {tuple(row) for row in rows}


async def deadlocks(observer: Observer) -> int:
    """Deadlocks of the database so far, as far as finished sessions have reported."""
    count: int = await observer.fetchval(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    )
    return count
