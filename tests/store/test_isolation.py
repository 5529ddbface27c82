"""No duty stops at a row that cannot be written: a walk over all of them, with one bad row each."""

import logging

import pytest

from headgate.duties.loop import Loop, all_loops
from headgate.model.retention import RetentionPeriods
from headgate.store.store import Store
from tests.store.rows import Observer

LOOPS: dict[str, Loop] = {loop.name: loop for loop in all_loops()}

# The state of what a duty works off, how long it is retained, and how many it handles of twenty.
WRITES_JOBS = {
    "reclaimer": [("running", 0)],
    "promoter": [("scheduled", 0), ("retryable", 0)],
    "quarantine": [("available", 0), ("scheduled", 0), ("retryable", 0)],
    "retention": [("completed", 1), ("archived", 1), ("archived", 0)],
}
WRITES_NO_JOBS = {
    "scheduler": "a schedule that cannot be taken up stays due; the others are taken up",
    "operations": "one that fails is ended; the others go on",
    "pruning": "a kind of records is passed over; the others go",
    "ledger": "appended and added up without a condition",
    "archive": "months are made and dropped one by one",
    "lanes": "registered and removed without a condition",
}

_FILL = """
INSERT INTO headgate_job (ulid, kind, payload, fingerprint, state, enqueued_at_ms, scheduled_at_ms,
  finalized_at_ms, retention_ms, lease_id, lease_expires_at_ms)
SELECT 'job' || n, CASE n WHEN 7 THEN 'bad' ELSE 'mail' END, '', 'poison',
  $1::text::headgate_state, 1, 1, CASE WHEN $1::text IN ('completed', 'archived') THEN 1 END, $2,
  CASE $1::text WHEN 'running' THEN 'lease' END, CASE $1::text WHEN 'running' THEN 1 END
FROM generate_series(1, 20) AS n
"""
_REFUSE = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF to_jsonb(OLD) ->> 'kind' = 'bad' OR TG_TABLE_NAME = 'headgate_audit' THEN
    RAISE EXCEPTION 'not this one';
  END IF;
  RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE TRIGGER mine BEFORE UPDATE OR DELETE ON headgate_job
  FOR EACH ROW EXECUTE FUNCTION refuse();
CREATE TRIGGER mine BEFORE DELETE ON headgate_audit FOR EACH ROW EXECUTE FUNCTION refuse();
"""


def test_no_duty_is_forgotten() -> None:
    assert LOOPS.keys() == WRITES_JOBS.keys() | WRITES_NO_JOBS.keys()


@pytest.mark.parametrize(
    ("duty", "state", "retention_ms"),
    [(duty, *jobs) for duty, kinds in WRITES_JOBS.items() for jobs in kinds],
)
async def test_a_job_that_cannot_be_written_does_not_keep_the_others(
    store: Store,
    observer: Observer,
    caplog: pytest.LogCaptureFixture,
    duty: str,
    state: str,
    retention_ms: int,
) -> None:
    await observer.execute(_FILL, state, retention_ms)
    if duty == "quarantine":
        await observer.execute("INSERT INTO headgate_quarantine VALUES ('poison', 'mail', 3, 1)")
    await observer.execute(_REFUSE)
    with caplog.at_level(logging.ERROR, "headgate.store"):
        assert await LOOPS[duty].run_once(store) == 19
        assert await LOOPS[duty].run_once(store) == 0
    assert len([text for text in caplog.messages if "passed over for an hour" in text]) == 1
    left = "SELECT array_agg(kind) FROM headgate_job WHERE state = $1::text::headgate_state"
    assert "bad" in await observer.fetchval(left, state)


async def test_records_that_may_not_go_do_not_keep_those_of_other_kinds(
    store: Store, observer: Observer, caplog: pytest.LogCaptureFixture
) -> None:
    await observer.execute(
        "INSERT INTO headgate_audit"
        " (at_ms, identity, role, method, route, target, idempotency_key, status)"
        " VALUES (1, '', '', '', '', '', '', 204)"
    )
    await observer.execute("INSERT INTO headgate_effect VALUES ('e1', 1)")
    await observer.execute(_REFUSE)
    periods = RetentionPeriods()
    first = await store.retention.prune(periods, 10)
    assert first["effects"] == 1
    assert not first["audit"]
    assert "audit" not in await store.retention.prune(periods, 10)
    [told] = [text for text in caplog.messages if "passed over for an hour" in text]
    assert "a record of audit" in told
