"""A database with many jobs, unevenly spread, for guards on what reads cost.

Old queues and kinds that nobody uses any more, a few rows of some others, tags that never meet, a
queue with many partitions, one with a long line, and counts that are partly folded.
"""

from typing import Any, Final

import asyncpg

from headgate.store.settings import StoreSettings
from headgate.store.store import Store
from headgate.tables import metadata

JOBS: Final = 40_000
QUEUES: Final = 40

_JOBS = """
INSERT INTO headgate_job (ulid, kind, payload, fingerprint, queue, state, partition_key, rate_class,
  weight, priority, enqueued_at_ms, scheduled_at_ms, finalized_at_ms, lease_id,
  lease_expires_at_ms, claimed_at_ms, sticky_worker)
SELECT 'job' || n,
  CASE WHEN n <= 5 THEN 'rare' WHEN old THEN 'retired'
    ELSE (ARRAY['mail', 'report', 'sync'])[1 + n % 3] || ':' || n % 10 END,
  decode(md5(n::text) || md5((n + 1)::text), 'hex'),
  CASE WHEN n <= 5 THEN 'cold' WHEN n % 20 = 0 THEN 'hot' ELSE md5((n / 3)::text) END,
  CASE WHEN n <= 5 THEN 'rare' WHEN old THEN 'retired'
    ELSE 'q' || lpad(floor($2::int * a * a * a)::int::text, 3, '0') END,
  state::headgate_state,
  CASE WHEN a < 0.2 THEN 't' || floor(2000 * b)::int ELSE 't' || floor(20 * b * b)::int END,
  CASE WHEN b < 0.4 THEN 'class' || floor(50 * b * b)::int ELSE '' END,
  1 + n % 3, CASE WHEN c < 0.9 THEN 0 ELSE floor(20 * c)::int - 19 END,
  1700000000000 + n, 1700000000000 + n,
  CASE WHEN state > 'retryable' THEN 1700000000000 + n END,
  CASE WHEN state = 'running' THEN 'lease' END, CASE WHEN state = 'running' THEN 4000000000000 END,
  CASE WHEN state = 'running' THEN 1700000000000 + n END,
  CASE WHEN n % 400 = 7 THEN 'w' || n % 3 ELSE '' END
FROM (
  SELECT n, a, b, c, n <= $1::int / 10 AS old, (CASE
    WHEN n <= $1::int / 10 THEN CASE WHEN n % 50 = 0 THEN 'archived' ELSE 'completed' END
    WHEN s < 0.30 THEN 'available' WHEN s < 0.32 THEN 'running' WHEN s < 0.35 THEN 'scheduled'
    WHEN s < 0.36 THEN 'retryable' WHEN s < 0.37 THEN 'pending' WHEN s < 0.39 THEN 'archived'
    WHEN s < 0.40 THEN 'cancelled' WHEN n % 400 = 0 THEN 'quarantined'
    WHEN n % 400 = 1 THEN 'undecodable' ELSE 'completed' END)::headgate_state AS state
  FROM (SELECT n, random() AS a, random() AS b, random() AS c, random() AS s
    FROM generate_series(1, $1::int) AS n) AS dice
) AS spread
"""

_REST = """
INSERT INTO headgate_job_tag (job_id, tag)
SELECT id, 'common' FROM headgate_job WHERE id % 2 = 0
UNION ALL SELECT id, CASE WHEN id % 40 = 0 THEN 'left' ELSE 'right' END FROM headgate_job
  WHERE id % 20 = 0
UNION ALL SELECT id, 'tenant:' || id % 97 FROM headgate_job WHERE id % 10 = 0
UNION ALL SELECT id, 'rare' FROM headgate_job WHERE id IN (10, 20, 30, 40, 50);
INSERT INTO headgate_active_partition (queue, sticky_worker, priority, partition_key, rate_class)
SELECT DISTINCT queue, sticky_worker, priority, partition_key, rate_class FROM headgate_job
  WHERE state = 'available';
INSERT INTO headgate_inflight (queue, partition_key)
SELECT DISTINCT queue, partition_key FROM headgate_active_partition;
INSERT INTO headgate_rate_bucket (name, tokens, burst, limit_per_window, window_ms, refilled_at_ms)
SELECT 'class' || n, n % 3, 100, 100, 3600000, 4000000000000 FROM generate_series(0, 60) AS n;
INSERT INTO headgate_concurrency_limit (name, queue, max_concurrent)
SELECT 'limit' || n, 'q' || lpad(n::text, 3, '0'), 3 FROM generate_series(0, 19) AS n;
INSERT INTO headgate_quarantine (fingerprint, kind, crash_count, quarantined_at_ms)
SELECT DISTINCT ON (fingerprint) fingerprint, kind, 3, 0 FROM headgate_job
  WHERE state = 'quarantined';
INSERT INTO headgate_queue_state (queue) SELECT DISTINCT queue FROM headgate_job;
INSERT INTO headgate_worker (worker_id, queues, concurrency, heartbeat_at_ms)
SELECT 'w' || n, ARRAY['q000', 'q001'], 8, CASE WHEN n < 100 THEN 4000000000000 ELSE 0 END
  FROM generate_series(1, 300) AS n;
INSERT INTO headgate_audit (at_ms, identity, role, method, route, target, idempotency_key, status)
SELECT n, 'ada', 'admin', 'POST', '/', '', '', 204 FROM generate_series(1, 10000) AS n;
INSERT INTO headgate_schedule (id, kind, spec, next_run_ms, updated_at_ms)
SELECT 'schedule-' || n, 'mail:1', '@every:60000', 4000000000000, 0
  FROM generate_series(1, 300) AS n;
INSERT INTO headgate_schedule_event (schedule_id, tick_ms, job_id, outcome, recorded_at_ms)
SELECT 'schedule-' || n % 300, n, 'job', 'enqueued', n FROM generate_series(1, 9000) AS n;
INSERT INTO headgate_operation (id, action, selector, status, created_at_ms)
SELECT 'operation' || n, 'delete', '{}', 'completed', 0 FROM generate_series(1, 3000) AS n;
"""

_RECENT = """
INSERT INTO headgate_queue_counter (queue, bucket_ms, arrived, completed)
SELECT queue, $1::bigint - minute * 60000, 50, 49
  FROM headgate_queue_state, generate_series(1, 200) AS minute ON CONFLICT DO NOTHING;
INSERT INTO headgate_partition_counter (queue, partition_key, bucket_ms, arrived, completed)
SELECT DISTINCT queue, partition_key, $1::bigint - minute * 60000, 5, 5
  FROM headgate_active_partition, generate_series(1, 5) AS minute ON CONFLICT DO NOTHING;
"""

_UNFOLDED = """
UPDATE headgate_job SET state = 'available' WHERE state = 'scheduled' AND id % 3 = 0
"""


async def fill_skewed(dsn: str, jobs: int = JOBS, queues: int = QUEUES) -> None:
    """Fills a fresh database; always the same for the same numbers."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("SELECT setseed(0.42)")
        await connection.execute(_JOBS, jobs, queues)
        await connection.execute(_REST)
        async with Store(StoreSettings(dsn=dsn)) as store:
            while await store.upkeep.fold_ledger(20_000):
                pass
        now_ms = await connection.fetchval(
            "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint / 60000 * 60000"
        )
        for statement in _RECENT.split(";")[:2]:
            await connection.execute(statement, now_ms)
        await connection.execute(_UNFOLDED)
        await _settle(connection)
    finally:
        await connection.close()


async def _settle(connection: Any) -> None:
    """Statistics are what they are now, whatever the server does in the background."""
    for table in metadata.tables:
        if table != "headgate_job_archive":
            await connection.execute(
                await connection.fetchval(
                    "SELECT format('ALTER TABLE %I SET (autovacuum_enabled = false)', $1::text)",
                    table,
                )
            )
    await connection.execute("VACUUM ANALYZE")


async def forget_statistics(dsn: str) -> None:
    """As on a database that was never analyzed."""
    connection = await asyncpg.connect(dsn)
    await connection.execute("DELETE FROM pg_statistic")
    await connection.close()
