"""The hot path and the sweeps on plans that were made when the database was empty.

A worker prepares its statements once, long before there is much to do; a plan that is fine for
nothing must be fine for a million jobs.
"""

from typing import Any

import pytest
from sqlalchemy import Executable

from headgate.queries.enqueue import insert_jobs
from headgate.queries.enqueue_lane import insert_in_lane
from headgate.queries.enqueue_obstacles import (
    existing_jobs,
    key_holders,
    release_lapsed_keys,
)
from headgate.queries.outcomes import conclude, renew, revoke, succeed
from headgate.queries.promotion import promote_due
from headgate.queries.reclaim import reclaim, running_window
from headgate.store.database import GATE_SETTINGS
from headgate.store.store import Store
from tests.store.plans import plan_of, scans_of
from tests.store.rows import Observer

LEASES = {"job_id_array": ["a"], "lease_id_array": ["l"], "fence_array": [1]}
CONCLUSIONS = {
    "outcome_array": ["retry"],
    "error_array": [None],
    "delay_ms_array": [None],
    "logs_array": [None],
}
BATCH: dict[str, Any] = {
    "id_array": ["a"],
    "kind_array": ["k"],
    "payload_array": [b""],
    "queue_array": ["q"],
    "fingerprint_array": ["f"],
    "unique_key_array": [b"k"],
}
ONE = {name.removesuffix("_array"): values[0] for name, values in BATCH.items()}
BY_ID = "Index Scan headgate_job_pkey"
BY_PUBLIC_ID = "Index Scan headgate_job_ulid_key"
BY_KEY = {"Index Scan headgate_job_unique", "Index Scan headgate_job_unique_throttle"}
BY_KEY_ALONE = {scan.replace("Index", "Index Only", 1) for scan in BY_KEY}

STATEMENTS: dict[str, tuple[Executable, dict[str, Any], set[str]]] = {
    "guarded insert": (
        insert_jobs(frozenset({"unique_key"}), guarded=True, tolerant=False, chosen_ids=True),
        BATCH,
        {"Index Only Scan headgate_job_ulid_key", *BY_KEY_ALONE},
    ),
    "single insert": (
        insert_in_lane(
            frozenset({"unique_key"}), shared=frozenset(ONE), chosen_ids=True, request=False
        ),
        {f"shared_{name}": value for name, value in ONE.items()},
        {"Index Only Scan headgate_job_ulid_key", *BY_KEY_ALONE},
    ),
    "insert in a lane": (
        insert_in_lane(
            frozenset(), shared=frozenset({"kind", "queue"}), chosen_ids=False, request=False
        ),
        BATCH | {f"shared_{name}": value for name, value in ONE.items()},
        set(),
    ),
    "existing jobs": (existing_jobs(), {"id_array": ["a", "b"]}, {BY_PUBLIC_ID}),
    "key holders": (key_holders(), {"unique_key_array": [b"k", b"l"]}, BY_KEY),
    "lapsed keys": (release_lapsed_keys(), {"row_id_array": [1, 2]}, {BY_ID}),
    "success": (succeed(results=False, logs=False), LEASES, {BY_PUBLIC_ID}),
    "revocation": (revoke(), LEASES, {BY_PUBLIC_ID}),
    "conclusion": (conclude(), LEASES | CONCLUSIONS, {BY_PUBLIC_ID}),
    "renewal": (renew(), LEASES | {"lease_ms": 1_000}, {BY_PUBLIC_ID, BY_ID}),
    "promotion": (
        promote_due(),
        {"batch_size": 10, "passed_over": []},
        {"Index Scan headgate_job_due", BY_ID},
    ),
    "running jobs": (running_window(), {"after_id": 0}, {"Index Scan headgate_job_state"}),
    "reclaim": (reclaim(), {"row_id_array": [1, 2]}, {BY_ID}),
}


@pytest.fixture
async def gate_session(store: Store, observer: Observer) -> Observer:
    """The observer's session, set like one of the hot path."""
    for name, value in GATE_SETTINGS.items():
        await observer.execute("SELECT set_config($1, $2, false)", name, value)
    return observer


@pytest.mark.parametrize("name", STATEMENTS)
async def test_a_plan_for_nothing_is_good_for_everything(gate_session: Observer, name: str) -> None:
    statement, parameters, expected = STATEMENTS[name]
    plan = await plan_of(gate_session, statement, parameters, "force_generic_plan", run=False)
    assert scans_of(plan, "headgate_job") == expected
    for node in plan:
        if node.get("Relation Name") == "headgate_job" and "Index Name" in node:
            assert node.get("Index Cond"), "an index that is read whole"
