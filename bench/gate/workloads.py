"""Backlogs and policies that the gate is measured on, and the databases that hold them."""

from typing import Any

import asyncpg
import msgspec
from sqlalchemy import text

from headgate.store.migration import upgrade

CLASSES = ("a", "b", "c")

_JOBS = """
INSERT INTO headgate_job
  (ulid, kind, payload, partition_key, rate_class, fingerprint, enqueued_at_ms, scheduled_at_ms,
   headers)
SELECT 'j' || n, 'email:send', decode(repeat('ab', 100), 'hex'),
  CASE WHEN $3 = 1 THEN '' ELSE 't' || lpad((n % $3)::text, 5, '0') END,
  ($4::text[])[1 + n / $3 % cardinality($4::text[])], md5(n::text), n, n,
  '{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}'
FROM generate_series($1::int, $2::int) AS n
"""
_LANES = """
INSERT INTO headgate_active_partition (queue, sticky_worker, priority, partition_key, rate_class)
SELECT DISTINCT queue, sticky_worker, priority, partition_key, rate_class FROM headgate_job
"""
_PARTITIONS = """
INSERT INTO headgate_inflight (queue, partition_key)
SELECT DISTINCT queue, partition_key FROM headgate_job
"""
_BUCKETS = """
INSERT INTO headgate_rate_bucket (name, tokens, burst, limit_per_window, window_ms, refilled_at_ms)
SELECT name, $2, 1000000000, $2, 1000, 0 FROM unnest($1::text[]) AS name
"""
_UNUSED_BUCKETS = """
INSERT INTO headgate_rate_bucket (name, tokens, burst, limit_per_window, window_ms, refilled_at_ms)
SELECT 'unused' || n, 5, 5, 5, 1000, 0 FROM generate_series(1, $1::int) AS n
"""
_CEILING = """
INSERT INTO headgate_concurrency_limit (name, queue, max_concurrent) VALUES ('all', 'default', $1)
"""
_QUARANTINE = """
INSERT INTO headgate_quarantine (fingerprint, kind, crash_count, quarantined_at_ms)
SELECT 'q' || n, 'email:send', 3, 0 FROM generate_series(1, $1::int) AS n
"""
_PLAIN_INDEX = """
CREATE INDEX bench_plain ON headgate_job (queue, priority DESC, scheduled_at_ms, id)
WHERE state = 'available'
"""
_UNSYNCED = """
SELECT format('ALTER DATABASE %I SET synchronous_commit = off', current_database())
"""


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """A backlog of one queue. `blocked` rows of a class without tokens and as many of one tenant
    are older than all others; `policies` are a ceiling, quarantines, three classes in use, and
    `unused` ones.
    """

    name: str
    tenants: int = 1
    blocked: int = 0
    policies: bool = False
    unused: int = 0


async def make(dsn: str, workload: Workload, rows: int) -> None:
    """Fills the empty database `dsn`: the schema, the backlog, the policies, the statistics."""
    await upgrade(dsn)
    connection = await asyncpg.connect(dsn)
    try:
        # A flush to the disk per call would hide what the statements cost.
        await connection.execute(await connection.fetchval(_UNSYNCED))
        await _fill(connection, workload, rows)
    finally:
        await connection.close()


async def _fill(connection: Any, workload: Workload, rows: int) -> None:
    blocked = workload.blocked
    if blocked:
        await connection.execute(_JOBS, 1, blocked, workload.tenants, ["dead"])
        await connection.execute(_JOBS, blocked + 1, 2 * blocked, 1, [""])
        await connection.execute(_BUCKETS, ["dead"], 0)
    classes = ["", *CLASSES] if workload.policies else [""]
    await connection.execute(_JOBS, 2 * blocked + 1, 2 * blocked + rows, workload.tenants, classes)
    for statement in (_LANES, _PARTITIONS, _PLAIN_INDEX):
        await connection.execute(statement)
    if workload.policies:
        await connection.execute(_BUCKETS, list(CLASSES), 1_000_000)
        await connection.execute(_UNUSED_BUCKETS, workload.unused)
        await connection.execute(_CEILING, 100_000)
        await connection.execute(_QUARANTINE, 100)
    await connection.execute("VACUUM ANALYZE")


PLAIN = text("""
UPDATE headgate_job SET state = 'running', lease_id = CAST(:lease_id AS text),
  claimed_by = :worker, fence = fence + 1,
  claimed_at_ms = (extract(epoch from clock_timestamp()) * 1000)::bigint,
  lease_expires_at_ms = (extract(epoch from clock_timestamp()) * 1000)::bigint + :lease_ms
WHERE id = ANY (ARRAY(
  SELECT id FROM headgate_job WHERE queue = :queue AND state = 'available'
  ORDER BY priority DESC, scheduled_at_ms, id LIMIT :capacity FOR UPDATE SKIP LOCKED))
RETURNING ulid, lease_id, fence, lease_expires_at_ms, claimed_at_ms, kind, schema_version, payload,
  queue, partition_key, rate_class, weight, fingerprint, priority, attempt, crash_attempt,
  max_attempts, enqueued_at_ms, scheduled_at_ms, timeout_ms, deadline_ms, retention_ms, headers,
  checkpoint, cp_cursor, periodic_schedule_id, periodic_tick_ms, sticky_worker
""")
"""What a queue without policies does, with the index it would have: the oldest jobs of the highest
priority, and the same columns."""
