"""Every sweep of the duties, and a database on which none has anything to do."""

from typing import Any

from sqlalchemy import Executable

from headgate.model.month import Month
from headgate.queries import (
    archive,
    archive_months,
    duties,
    ledger,
    operations,
    promotion,
    quarantine,
    reclaim,
    retention,
    schedules,
)
from headgate.store.store import Store
from tests.store.rows import Observer

DAY_MS = 86_400_000
IDLE_PAGES = 20
"""What a sweep may touch that finds nothing to do."""

# Jobs in all states, nine tenths of them finished just now, and of every record some that
# are young. One fingerprint is quarantined, and nothing waits with it.
_FILL = """
INSERT INTO headgate_job (ulid, kind, payload, fingerprint, queue, state, partition_key,
  enqueued_at_ms, scheduled_at_ms, finalized_at_ms, retention_ms, lease_id, unique_key)
SELECT 'job' || n, 'kind' || n % 7, '', 'f' || n % 1000, 'q' || n % 11, state, 'p' || n % 50,
  n, CASE WHEN state IN ('scheduled', 'retryable') THEN 4000000000000 ELSE n END,
  CASE WHEN state > 'retryable' THEN (extract(epoch from now()) * 1000)::bigint END,
  CASE n % 3 WHEN 0 THEN 0 ELSE 3600000 END, CASE state WHEN 'running' THEN 'lease' END,
  int8send(n)
FROM (SELECT n, (CASE WHEN n % 10 > 0 THEN
    (ARRAY['completed', 'archived', 'cancelled', 'undecodable'])[1 + n / 10 % 4]
    ELSE (ARRAY['pending', 'scheduled', 'available', 'running', 'retryable', 'quarantined'])
      [1 + n / 10 % 6] END)::headgate_state AS state
  FROM generate_series(1, current_setting('fill.jobs')::int) AS n) AS spread;
INSERT INTO headgate_quarantine VALUES ('poison', 'mail', 3, 1);
INSERT INTO headgate_audit (at_ms, identity, role, method, route, target, idempotency_key, status)
SELECT (extract(epoch from now()) * 1000)::bigint, 'ada', 'admin', 'POST', '/', '', '', 204
FROM generate_series(1, 5000);
INSERT INTO headgate_operation (id, action, selector, status, created_at_ms, finished_at_ms)
SELECT 'op' || n, 'delete', '{}', 'completed', 1, (extract(epoch from now()) * 1000)::bigint - n
FROM generate_series(1, 5000) AS n;
INSERT INTO headgate_effect SELECT 'e' || n, (extract(epoch from now()) * 1000)::bigint
FROM generate_series(1, 5000) AS n;
INSERT INTO headgate_enqueue_key SELECT 'k', n, '', (extract(epoch from now()) * 1000)::bigint
FROM generate_series(1, 5000) AS n;
INSERT INTO headgate_idempotency (identity, method, route, key, request_hash, status, body,
  recorded_at_ms)
SELECT '', '', '', n, '', 200, '', (extract(epoch from now()) * 1000)::bigint
FROM generate_series(1, 5000) AS n;
INSERT INTO headgate_queue_counter SELECT 'q' || n % 50,
  (extract(epoch from now()) * 1000)::bigint - n * 1000, 1, 1 FROM generate_series(1, 5000) AS n;
INSERT INTO headgate_partition_counter SELECT 'q', 'p' || n % 50,
  (extract(epoch from now()) * 1000)::bigint - n * 1000, 1, 1 FROM generate_series(1, 5000) AS n;
INSERT INTO headgate_job_archive
SELECT n, n, 'a' || n, 'k', 'q', 'archived', '', 0, 0, '', '[]', 4000000000000
FROM generate_series(1, 5000) AS n;
INSERT INTO headgate_schedule_event (schedule_id, tick_ms, job_id, outcome, recorded_at_ms,
  orphaned_at_ms)
SELECT 's' || n % 50, n, '', 'enqueued', n,
  CASE WHEN n % 2 = 0 THEN (extract(epoch from now()) * 1000)::bigint END
FROM generate_series(1, 5000) AS n;
INSERT INTO headgate_schedule (id, kind, spec, next_run_ms)
SELECT 's' || n, 'mail', '@every:1000', 4000000000000 FROM generate_series(1, 5000) AS n;
INSERT INTO headgate_worker (worker_id, heartbeat_at_ms)
SELECT 'w' || n, (extract(epoch from now()) * 1000)::bigint FROM generate_series(1, 100) AS n;
"""


async def fill_idle(connection: Observer, store: Store, jobs: int) -> None:
    """Fills a fresh database so that no sweep has anything to do."""
    await connection.execute("SELECT set_config('fill.jobs', $1, false)", str(jobs))
    await connection.execute(_FILL)
    while await store.upkeep.fold_ledger(20_000):
        pass
    await connection.execute("VACUUM ANALYZE")


SWEEPS: dict[str, tuple[Executable, dict[str, Any]]] = {
    "retained": (retention.evict_retained(), {"batch_size": 1_000, "passed_over": []}),
    "dead letters": (
        retention.evict_dead_letters(),
        {"batch_size": 1_000, "kept_ms": 30 * DAY_MS, "passed_over": [1, 2]},
    ),
    "quarantine": (
        quarantine.waiting_jobs(),
        {"after_fingerprint": "", "batch_size": 1_000, "passed_over": [1, 2]},
    ),
    "operations": (operations.open_operations(), {"after_ms": -1, "after_id": "", "page_size": 5}),
    "archive": (archive.prune_archive(), {"batch_size": 1_000}),
    "reclaim": (reclaim.reclaim(), {"row_id_array": []}),
    "promotion": (promotion.promote_due(), {"batch_size": 1_000, "passed_over": [1, 2]}),
    "schedules": (
        schedules.due_schedules(),
        {"after_next_run_ms": -1, "after_id": "", "batch_size": 50},
    ),
    "ledger": (ledger.fold_ledger(), {"batch_size": 5_000}),
    "hours": (retention.roll_up(), {"batch_size": 1_000, "kept_ms": DAY_MS}),
    "an empty month": (archive_months.month_holds(Month(2026, 1), in_default=True), {}),
    "a duty": (
        duties.claim_duty(),
        {"duty_name": "promoter", "duty_holder": "w", "lease_ms": 5_000},
    ),
    **{
        record: (retention.prune(record), {"batch_size": 1_000, "kept_ms": DAY_MS})
        for record in retention.RECORDS
    },
}
