"""Which kinds wait, by one probe for each however many jobs there are."""

import pytest

from headgate.model.envelope import Envelope
from headgate.queries.kinds import waiting_kinds
from headgate.store.store import Store
from tests.store.plans import MODES, PlanMode, pages_read, plan_of, scans_of
from tests.store.rows import Observer

_FILL = """
INSERT INTO headgate_job (ulid, kind, payload, queue, state, fingerprint, enqueued_at_ms,
  scheduled_at_ms)
SELECT 'job' || n, 'kind' || n % 5, '', 'queue' || n % 5,
  (CASE WHEN n % 5 < 3 THEN 'available' ELSE 'completed' END)::headgate_state, 'f', 1, 1
FROM generate_series(1, 30000) AS n
"""


async def test_kinds_are_those_that_have_a_job_to_take_here(store: Store) -> None:
    await store.producer.enqueue(
        [
            Envelope(kind="here", queue="a"),
            Envelope(kind="there", queue="b"),
            Envelope(kind="later", queue="a", delay_ms=60_000),
            Envelope(kind="pending", queue="a", pending=True),
        ]
    )
    assert await store.workers.waiting_kinds(["a"]) == ["here"]
    assert await store.workers.waiting_kinds(["b", "c"]) == ["there"]
    assert await store.workers.waiting_kinds([]) == []


@pytest.mark.parametrize("mode", MODES)
async def test_the_look_is_a_probe_for_each_kind(
    store: Store, observer: Observer, mode: PlanMode
) -> None:
    await observer.execute(_FILL)
    await observer.execute("ANALYZE headgate_job")
    assert await store.workers.waiting_kinds(["queue1"]) == ["kind1"]
    await observer.execute("SET enable_seqscan = off; SET enable_bitmapscan = off")
    nodes = await plan_of(observer, waiting_kinds(), {"served_queues": ["queue1"]}, mode)
    scans = scans_of(nodes, "headgate_job")
    assert all(scan.endswith("headgate_job_kind") for scan in scans), scans
    assert pages_read(nodes) < 100
