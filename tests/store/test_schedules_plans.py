"""The sweep reads what is due and no more, however many schedules and events there are."""

from typing import Any

import pytest
from sqlalchemy import Executable

from headgate.queries.schedules import (
    due_schedules,
    lock_schedule,
    one_definition,
    page_of_events,
    page_of_schedules,
    trim_events,
)
from tests.store.plans import MODES, PlanMode, pages_read, plan_of, scans_of
from tests.store.rows import Observer

SCHEDULES = 20_000

_FILL = """
INSERT INTO headgate_schedule (id, kind, spec, next_run_ms)
  SELECT 's' || n, 'report', '@every:1000', CASE WHEN n % 200 = 0 THEN n ELSE 9000000000000 + n END
  FROM generate_series(1, $1::int) AS n
"""
_FILL_EVENTS = """
INSERT INTO headgate_schedule_event
    (schedule_id, tick_ms, job_id, outcome, reason, recorded_at_ms)
  SELECT 's' || n % 200, n, 'job' || n, 'enqueued', 'accepted', n
  FROM generate_series(1, $1::int) AS n
"""

ONE = {"schedule_id": "s200"}
READS: dict[str, tuple[Executable, dict[str, Any], str, str, int]] = {
    "due": (
        due_schedules(),
        {"after_next_run_ms": -1, "after_id": "", "batch_size": 50},
        "headgate_schedule",
        "headgate_schedule_due",
        120,
    ),
    "due after": (
        due_schedules(),
        {"after_next_run_ms": 10_000, "after_id": "s10000", "batch_size": 50},
        "headgate_schedule",
        "headgate_schedule_due",
        120,
    ),
    "lock": (
        lock_schedule(),
        ONE,
        "headgate_schedule",
        "headgate_schedule_pkey",
        12,
    ),
    "definition": (one_definition(), ONE, "headgate_schedule", "headgate_schedule_pkey", 8),
    "page": (
        page_of_schedules(),
        {"page_size": 201, "page_offset": 0},
        "headgate_schedule",
        "headgate_schedule_pkey",
        250,
    ),
    "events": (
        page_of_events(),
        {**ONE, "before_event_id": 2**62, "page_size": 30},
        "headgate_schedule_event",
        "headgate_schedule_event_newest",
        60,
    ),
    "trim": (
        trim_events(),
        ONE,
        "headgate_schedule_event",
        "headgate_schedule_event_newest",
        300,
    ),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", READS)
async def test_an_index_serves_it(observer: Observer, name: str, mode: PlanMode) -> None:
    statement, parameters, table, index, pages = READS[name]
    await observer.execute(_FILL, SCHEDULES)
    await observer.execute(_FILL_EVENTS, SCHEDULES)
    await observer.execute("ANALYZE headgate_schedule")
    await observer.execute("ANALYZE headgate_schedule_event")
    nodes = await plan_of(observer, statement, parameters, mode)
    assert index in {node.get("Index Name") for node in nodes}
    assert not any(scan.startswith("Seq Scan") for scan in scans_of(nodes, table)), nodes
    assert pages_read(nodes) < pages
