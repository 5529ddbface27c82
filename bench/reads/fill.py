"""A database of any size with one mix: finished jobs, a backlog, and rare cases of all sorts.

The oldest tenth belongs to a queue and a kind that nobody uses any more; five jobs are of a queue,
a kind, a fingerprint and a tag of their own; two tags never meet.
"""

import asyncio

import asyncpg

QUEUES = 200
_CHUNK = 250_000
_WRITERS = 2
_DAY_MS = 86_400_000

# $1 to $2 of $3 jobs. The dice are those of the session, which is seeded.
_JOBS = """
INSERT INTO headgate_job (id, ulid, kind, payload, fingerprint, queue, state, partition_key,
  rate_class, weight, priority, errors, retention_ms, enqueued_at_ms, scheduled_at_ms,
  finalized_at_ms, lease_id, lease_expires_at_ms, claimed_at_ms, sticky_worker,
  periodic_schedule_id, periodic_tick_ms)
SELECT n, 'job' || lpad(n::text, 9, '0'),
  CASE WHEN n <= 5 THEN 'rare' WHEN old THEN 'retired'
    ELSE (ARRAY['mail', 'report', 'sync'])[1 + n % 3] || ':' || floor(17 * b * b)::int END,
  decode(md5(n::text) || md5((n + 1)::text), 'hex'),
  CASE WHEN n <= 5 THEN 'cold' WHEN n % 100 = 0 THEN 'hot' ELSE md5((n / 3)::text) END,
  CASE WHEN n <= 5 THEN 'rare' WHEN old THEN 'retired'
    ELSE 'q' || lpad(floor($4::int * a * a * a)::int::text, 3, '0') END,
  state,
  CASE WHEN a < 0.2 THEN 't' || floor(2000 * b)::int ELSE 't' || floor(20 * b * b)::int END,
  CASE WHEN b < 0.4 THEN 'class' || floor(75 * b)::int ELSE '' END,
  1 + n % 3, CASE WHEN c < 0.95 THEN 0 ELSE floor(200 * c)::int - 199 END,
  CASE WHEN state IN ('archived', 'retryable') THEN '[{"at_ms": 1700000000000, "attempt": 1,'
    ' "outcome": "retry", "error": "connection reset by peer"}]' ELSE '[]' END::jsonb,
  30 * $5::bigint, at_ms, at_ms,
  CASE WHEN state > 'retryable' THEN at_ms + 1000 END,
  CASE WHEN state = 'running' THEN 'lease' || n END,
  CASE WHEN state = 'running' THEN 4000000000000 END,
  CASE WHEN state = 'running' THEN at_ms END,
  CASE WHEN n % 400 = 7 THEN 'w' || n % 50 ELSE '' END,
  CASE WHEN n % 1000 = 9 THEN 'schedule-' || n % 20 ELSE '' END,
  CASE WHEN n % 1000 = 9 THEN at_ms ELSE 0 END
FROM (
  SELECT n, a, b, c, n <= $3::int / 10 AS old,
    (extract(epoch FROM clock_timestamp()) * 1000)::bigint
      - (20 * $5::bigint * (1 - n::float8 / $3::int))::bigint AS at_ms,
    (CASE
      WHEN n <= $3::int / 10 THEN CASE WHEN n % 50 = 0 THEN 'archived' ELSE 'completed' END
      WHEN s < 0.044 THEN 'available' WHEN s < 0.0482 THEN 'scheduled'
      WHEN s < 0.05 THEN 'retryable' WHEN s < 0.0526 THEN 'archived'
      WHEN s < 0.0537 THEN 'cancelled'
      WHEN s < 0.05415 THEN 'running' WHEN s < 0.0543 THEN 'pending'
      WHEN n % 22000 = 0 OR n = $3::int - 1 THEN 'quarantined'
      WHEN n % 45000 = 1 THEN 'undecodable'
      ELSE 'completed' END)::headgate_state AS state
  FROM (SELECT n, random() AS a, random() AS b, random() AS c, random() AS s
    FROM generate_series($1::int, $2::int) AS n) AS dice
) AS spread
"""

_TAGS = """
INSERT INTO headgate_job_tag (job_id, tag)
SELECT id, 'common' FROM headgate_job WHERE id % 16 = 0
UNION ALL SELECT id, CASE WHEN id % 40 = 0 THEN 'left' ELSE 'right' END
  FROM headgate_job WHERE id % 20 = 0
UNION ALL SELECT id, 'tenant:' || id % 97 FROM headgate_job WHERE id % 10 = 0
UNION ALL SELECT id, 'rare' FROM headgate_job WHERE id IN (16, 32, 48, 64, 80)
"""

# What the triggers and the fold would have left behind, and every way into a lane.
_COUNTS = """
INSERT INTO headgate_queue_count (queue, state, n)
SELECT queue, state, count(*) FROM headgate_job GROUP BY queue, state;
INSERT INTO headgate_partition_count (queue, partition_key, state, n)
SELECT queue, partition_key, state, count(*) FROM headgate_job
WHERE state IN ('pending', 'scheduled', 'available', 'running', 'retryable')
GROUP BY queue, partition_key, state;
INSERT INTO headgate_active_partition (queue, sticky_worker, priority, partition_key, rate_class)
SELECT DISTINCT queue, sticky_worker, priority, partition_key, rate_class FROM headgate_job
WHERE state = 'available';
INSERT INTO headgate_inflight (queue, partition_key)
SELECT DISTINCT queue, partition_key FROM headgate_active_partition;
SELECT setval(pg_get_serial_sequence('headgate_job', 'id'), (SELECT max(id) FROM headgate_job))
"""

# A tenth of what the number of jobs suggests, as most records are pruned by their age.
_RECORDS = """
INSERT INTO headgate_rate_bucket (name, tokens, burst, limit_per_window, window_ms, refilled_at_ms)
SELECT 'class' || n, n % 3, 100, 100, 3600000, 4000000000000 FROM generate_series(0, 29) AS n;
INSERT INTO headgate_concurrency_limit (name, queue, max_concurrent)
SELECT 'limit' || n, 'q' || lpad(n::text, 3, '0'), 3 FROM generate_series(0, 19) AS n;
INSERT INTO headgate_quarantine (fingerprint, kind, crash_count, quarantined_at_ms)
SELECT DISTINCT ON (fingerprint) fingerprint, kind, 3, 0 FROM headgate_job
  WHERE state = 'quarantined';
INSERT INTO headgate_queue_state (queue) SELECT DISTINCT queue FROM headgate_queue_count;
INSERT INTO headgate_worker (worker_id, queues, concurrency, heartbeat_at_ms)
SELECT 'w' || n, ARRAY['q000', 'q001'], 8, 4000000000000 FROM generate_series(1, 200) AS n;
INSERT INTO headgate_schedule (id, kind, spec, next_run_ms, updated_at_ms)
SELECT 'schedule-' || n, 'mail:1', '@every:60000', 4000000000000, 0
FROM generate_series(0, 49) AS n;
INSERT INTO headgate_schedule_event (schedule_id, tick_ms, job_id, outcome, recorded_at_ms)
SELECT 'schedule-' || n % 50, n, 'job', 'enqueued', n FROM generate_series(1, 5000) AS n;
INSERT INTO headgate_operation (id, action, selector, status, created_at_ms)
VALUES ('operation', 'delete', '{}', 'completed', 0);
INSERT INTO headgate_audit (at_ms, identity, role, method, route, target, idempotency_key, status)
SELECT n, 'ada', 'admin', 'POST', '/', '', '', 204
FROM generate_series(1, (SELECT max(id) / 10 FROM headgate_job)) AS n;
INSERT INTO headgate_job_archive (evicted_at_ms, finalized_at_ms, ulid, kind, queue, state,
  fingerprint, attempt, crash_attempt, payload, errors, archive_retention_ms)
SELECT n, n, 'gone' || n, 'mail:1', 'q' || lpad((n % 200)::text, 3, '0'), 'archived', '', 1, 0, '',
  '[]', 4000000000000
FROM generate_series(1, (SELECT max(id) / 10 FROM headgate_job)) AS n;
UPDATE headgate_job SET result_schema_version = 1, result_bytes = 'done', output_schema_version = 1,
  output_bytes = 'half', output_fence = 1, output_updated_at_ms = 1, progress_current = 1,
  progress_total = 2, progress_fence = 1, progress_updated_at_ms = 1
WHERE id IN (SELECT max(id) FROM headgate_job);
"""

_RECENT = """
INSERT INTO headgate_queue_counter (queue, bucket_ms, arrived, completed)
SELECT queue, this.minute - n * 60000, 50, 49
FROM headgate_queue_state, generate_series(0, 500) AS n, this;
INSERT INTO headgate_partition_counter (queue, partition_key, bucket_ms, arrived, completed)
SELECT queue, partition_key, this.minute - n * 60000, 5, 5
FROM headgate_inflight, generate_series(0, 5) AS n, this
"""
_THIS_MINUTE = (
    "CREATE TEMPORARY TABLE this AS SELECT"
    " (extract(epoch FROM clock_timestamp()) * 1000)::bigint / 60000 * 60000 AS minute"
)

# Through the triggers, and not folded: every count has to add these.
_UNFOLDED = """
UPDATE headgate_job SET state = 'available' WHERE state = 'scheduled'
  AND id > (SELECT max(id) * 0.9 FROM headgate_job)
"""

_INDEXES = """
SELECT indexrelid::regclass::text AS name, pg_get_indexdef(indexrelid) AS definition
FROM pg_index WHERE indrelid = 'headgate_job'::regclass AND NOT indisunique
"""


async def fill(dsn: str, jobs: int) -> None:
    """Fills a fresh installation. Indexes are made afterwards, which is faster."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("SET synchronous_commit = off; SET maintenance_work_mem = '512MB'")
        indexes = await connection.fetch(_INDEXES)
        for index in indexes:
            await connection.execute(f"DROP INDEX {index['name']}")
        await connection.execute("ALTER TABLE headgate_job DISABLE TRIGGER USER")
        await _write_jobs(dsn, jobs)
        for index in indexes:
            await connection.execute(index["definition"])
        for statements in (_TAGS, _COUNTS, "ANALYZE", _RECORDS, _THIS_MINUTE, _RECENT):
            await connection.execute(statements)
        await connection.execute("ALTER TABLE headgate_job ENABLE TRIGGER USER")
        await connection.execute(_UNFOLDED)
        await connection.execute("VACUUM ANALYZE")
    finally:
        await connection.close()


async def _write_jobs(dsn: str, jobs: int) -> None:
    starts = list(range(1, jobs + 1, _CHUNK))

    async def write(seed: float) -> None:
        connection = await asyncpg.connect(dsn, server_settings={"synchronous_commit": "off"})
        await connection.execute("SELECT setseed($1)", seed)
        while starts:
            first = starts.pop(0)
            last = min(first + _CHUNK - 1, jobs)
            await connection.execute(_JOBS, first, last, jobs, QUEUES, _DAY_MS)
        await connection.close()

    await asyncio.gather(*(write(0.1 + number / 10) for number in range(_WRITERS)))
