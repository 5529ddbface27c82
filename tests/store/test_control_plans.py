"""What actions, operations and sweeps read: their index and nothing else, and next to nothing when
there is nothing to do.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Executable

from headgate.model.lifecycle import OperatorAction, State
from headgate.model.month import Month
from headgate.model.operation import reached_states
from headgate.queries import (
    archive,
    archive_months,
    bulk,
    dead_letters,
    duties,
    history,
    ledger,
    operations,
    operators,
    promotion,
    quarantine,
    queue_deletion,
    reclaim,
    retention,
    schedules,
)
from headgate.store.database import GATE_SETTINGS
from headgate.store.store import Store
from tests.store.plans import MODES, Node, pages_read, plan_of, scans_of
from tests.store.rows import Observer

DAY_MS = 86_400_000
IDLE_PAGES = 20
"""What a sweep may touch that finds nothing to do."""

MANY = 10**12

# 20,000 jobs in all states, nine tenths of them finished just now, and of every record some that
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
  FROM generate_series(1, 20000) AS n) AS spread;
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

SWEEPS: dict[str, tuple[Executable, dict[str, Any]]] = {
    "retained": (retention.evict_retained(), {"batch_size": 1_000, "passed_over": []}),
    "dead letters": (
        retention.evict_dead_letters(),
        {"batch_size": 1_000, "kept_ms": 30 * DAY_MS, "passed_over": [1, 2]},
    ),
    "quarantine": (quarantine.park_waiting(), {"after_fingerprint": "", "batch_size": 1_000}),
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

# Statements on jobs, and the indexes by which alone they may come to them.
READS: dict[str, tuple[Executable, dict[str, Any], set[str]]] = {
    "lock": (
        operators.lock_jobs(),
        {"job_id_array": ["job1", "job500", "nobody"]},
        {"headgate_job_ulid_key"},
    ),
    "retry": (
        operators.enter_available(OperatorAction.RETRY),
        {"row_id_array": [1, 2, 3]},
        {"headgate_job_pkey", "headgate_job_unique", "headgate_job_unique_throttle"},
    ),
    "holders": (
        operators.key_holders(),
        {"row_id_array": [1, 2, 3]},
        {"headgate_job_pkey", "headgate_job_unique", "headgate_job_unique_throttle"},
    ),
    "cancel": (operators.cancel_jobs(), {"row_id_array": [10, 20]}, {"headgate_job_pkey"}),
    "delete": (operators.delete_jobs(), {"row_id_array": [10, 20]}, {"headgate_job_pkey"}),
    "lock free": (
        bulk.lock_free_jobs(reached_states("cancel", None)),
        {"row_id_array": [10, 20]},
        {"headgate_job_pkey"},
    ),
    "parked": (
        quarantine.lock_parked(),
        {"wanted_fingerprint": "f50", "after_id": 0, "batch_size": 5},
        {"headgate_job_fingerprint"},
    ),
    "dead letters lately": (
        dead_letters.count_dead_letters(),
        {"since_ms": 4 * 10**12, "before_id": 2**63 - 1},
        {"headgate_job_dead_letter", "headgate_job_state"},
    ),
    "any job": (queue_deletion.any_job(), {"queue_name": "q1"}, {"headgate_job_queue"}),
    "no job": (queue_deletion.any_job(), {"queue_name": "nothing"}, {"headgate_job_queue"}),
}

_SELECTION = {
    "wanted_kind": "kind3",
    "wanted_queue": "q3",
    "wanted_partition_key": "p3",
    "wanted_older_than_ms": 1,
    "operation_id": "op1",
}

# The conditions of a selection and the index that drives its stream.
STREAMS = {
    frozenset[str](): "headgate_job_state",
    frozenset({"queue"}): "headgate_job_queue",
    frozenset({"kind"}): "headgate_job_kind",
    frozenset({"kind", "queue"}): "headgate_job_kind",
    frozenset({"partition_key"}): "headgate_job_state",
    frozenset({"queue", "older_than_ms"}): "headgate_job_queue",
}


@pytest.fixture(params=["fresh", "without statistics"])
async def filled(request: pytest.FixtureRequest, observer: Observer, store: Store) -> Observer:
    """A session like those of the hot path, on a database of many jobs."""
    await observer.execute(_FILL)
    while await store.upkeep.fold_ledger(20_000):
        pass
    await observer.execute("VACUUM ANALYZE")
    if request.param == "without statistics":
        await observer.execute("DELETE FROM pg_statistic")
    for name, value in GATE_SETTINGS.items():
        await observer.execute("SELECT set_config($1, $2, false)", name, value)
    return observer


def reads(nodes: list[Node]) -> set[str]:
    """How the plan comes to jobs. Where it writes them, it found them before."""
    return scans_of(nodes, "headgate_job")


async def test_an_idle_sweep_touches_next_to_nothing(filled: Observer) -> None:
    for mode in MODES:
        for name, (statement, parameters) in SWEEPS.items():
            nodes = await plan_of(filled, statement, parameters, mode)
            assert not any("Seq" in scan or "Bitmap" in scan for scan in reads(nodes)), name
            assert pages_read(nodes) <= IDLE_PAGES, (name, mode, pages_read(nodes))


async def test_actions_come_to_their_jobs_by_an_index(filled: Observer) -> None:
    for mode in MODES:
        for name, (statement, parameters, indexes) in READS.items():
            nodes = await plan_of(filled, statement, parameters, mode)
            used = {scan.rpartition(" ")[2] for scan in reads(nodes)}
            assert used <= indexes, (name, mode, reads(nodes))
            assert not any("Seq" in scan for scan in reads(nodes)), (name, mode)


async def test_a_window_has_the_cost_of_a_window(filled: Observer) -> None:
    for mode in MODES:
        for given, index in STREAMS.items():
            for state in (State.COMPLETED, State.AVAILABLE, State.PENDING):
                statement = bulk.window(given, state)
                pages = []
                for after_id in (0, 10_000):
                    parameters = {**_SELECTION, "after_id": after_id, "window_size": 20}
                    nodes = await plan_of(filled, statement, parameters, mode)
                    used = {scan.rpartition(" ")[2] for scan in reads(nodes)}
                    assert used == {index}, (given, state, mode)
                    pages.append(pages_read(nodes))
                assert max(pages) <= 40, (given, state, mode, pages)


@pytest.fixture
def small_estimates(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Not all of the table, for which its heap would be the shortest way."""
    monkeypatch.setattr(bulk, "ESTIMATE", 200)
    bulk.estimate.cache_clear()
    yield
    bulk.estimate.cache_clear()


@pytest.mark.usefixtures("small_estimates")
async def test_an_estimate_follows_the_same_streams(filled: Observer) -> None:
    for mode in MODES:
        for given, index in STREAMS.items():
            statement = bulk.estimate(given, reached_states("cancel", None))
            nodes = await plan_of(filled, statement, _SELECTION, mode)
            used = {scan.rpartition(" ")[2] for scan in reads(nodes)}
            assert used == {index}, (given, mode, reads(nodes))


async def test_lists_of_records_are_read_along_their_indexes(filled: Observer) -> None:
    for mode in MODES:
        for table, statement, parameters, index in (
            (
                "headgate_operation",
                operations.page_of_operations(),
                {"page_size": 50, "page_offset": 0},
                "headgate_operation_",
            ),
            (
                "headgate_queue_counter",
                history.history(one_queue=False),
                {"since_ms": 4 * 10**12, "width_ms": 60_000, "span_ms": DAY_MS},
                "headgate_queue_counter_age",
            ),
        ):
            nodes = await plan_of(filled, statement, parameters, mode)
            scans = scans_of(nodes, table)
            assert scans, table
            assert all("Index" in scan and index in scan for scan in scans), (mode, scans)
            assert pages_read(nodes) <= 3 * IDLE_PAGES, (table, mode, pages_read(nodes))


async def test_the_archive_of_a_queue_is_one_index(filled: Observer) -> None:
    statement = archive.archived_jobs()
    for mode in MODES:
        for queue in ("q", "nothing"):
            parameters = {
                "wanted_queue": queue,
                "before_ms": MANY,
                "before_ulid": "",
                "page_size": 10,
            }
            nodes = await plan_of(filled, statement, parameters, mode)
            assert pages_read(nodes) <= 30, (queue, mode, pages_read(nodes))


async def test_many_quiet_fingerprints_cost_a_probe_each(filled: Observer) -> None:
    await filled.execute(
        "INSERT INTO headgate_quarantine SELECT 'quiet' || n, 'mail', 3, 1"
        " FROM generate_series(1, 5000) AS n"
    )
    for mode in MODES:
        nodes = await plan_of(filled, *SWEEPS["quarantine"], mode)
        assert pages_read(nodes) <= 4 * 3 * quarantine.FINGERPRINTS
