"""The store against the transition table: every edge is taken and compared with what it says.

An edge that is added to the table without a way to drive it fails here.
"""

from typing import Any

import pytest

from headgate.model.conditions import Condition, Effect, Facts
from headgate.model.envelope import Envelope
from headgate.model.job import Acknowledgement
from headgate.model.lifecycle import (
    DELETED,
    LIVE,
    TRANSITIONS,
    Event,
    Outcome,
    State,
    Transition,
    apply,
)
from headgate.store.store import Store
from tests.store.drives import DRIVES, ENVELOPES
from tests.store.rows import HOUR_MS, Observer, assert_lanes, job_row, now_ms, start

LEASE_COLUMNS = ("lease_id", "lease_expires_at_ms", "claimed_by")


def edge_cases() -> list[Any]:
    return [
        pytest.param(edge, id=f"{edge.source}-{edge.event}-{edge.target}") for edge in TRANSITIONS
    ]


def test_every_edge_can_be_driven() -> None:
    assert set(DRIVES) == set(Event)
    assert set(ENVELOPES) == set(Condition)


@pytest.mark.parametrize("edge", edge_cases())
async def test_an_edge_does_what_the_table_says(
    store: Store, observer: Observer, edge: Transition
) -> None:
    started = await now_ms(observer)
    job_id, before = await DRIVES[edge.event](store, observer, edge)
    row = await job_row(observer, job_id)
    if edge.target == DELETED:
        assert row is None
        return
    assert row is not None
    assert row["state"] == edge.target
    check_counters(edge, before, row)
    check_lease(edge, row)
    check_instants(edge, started, row)
    await assert_lanes(observer)


def check_counters(edge: Transition, before: dict[str, Any] | None, row: dict[str, Any]) -> None:
    old = before or {"fence": 0, "attempt": 0, "crash_attempt": 0}
    expected = {
        "fence": old["fence"] + (Effect.FENCE in edge.effects),
        "attempt": old["attempt"] + (Effect.ATTEMPT in edge.effects),
        "crash_attempt": old["crash_attempt"] + (Effect.CRASH_ATTEMPT in edge.effects),
    }
    if Effect.CRASHES_FORGIVEN in edge.effects:
        assert old["crash_attempt"] > 0
        expected["crash_attempt"] = 0
    assert {name: row[name] for name in expected} == expected


def check_lease(edge: Transition, row: dict[str, Any]) -> None:
    """Only what runs has a lease and a charge."""
    runs = edge.target is State.RUNNING
    assert all((row[column] is not None) is runs for column in LEASE_COLUMNS)
    if not runs:
        assert row["rate_charge"] == 0


def check_instants(edge: Transition, started: int, row: dict[str, Any]) -> None:
    """A finished job says when it ended and when its last attempt began; a waiting one neither."""
    if edge.target in LIVE:
        assert row["finalized_at_ms"] is None
    else:
        assert started <= row["finalized_at_ms"]
    if edge.target is State.RUNNING or (edge.target not in LIVE and edge.source is State.RUNNING):
        assert started <= row["claimed_at_ms"] <= (row["finalized_at_ms"] or row["claimed_at_ms"])
    else:
        assert row["claimed_at_ms"] is None


FACTS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"retention_ms": 0}, {}),
    ({"retention_ms": 1}, {}),
    ({"max_attempts": 1}, {}),
    ({"max_attempts": 2}, {}),
    ({}, {"delay_ms": 7}),
    ({"unique_key": b"k", "unique_window_ms": HOUR_MS}, {}),
    ({"unique_key": b"k", "unique_window_ms": HOUR_MS, "max_attempts": 1}, {"delay_ms": 7}),
]


@pytest.mark.parametrize("outcome", Outcome)
async def test_every_outcome_under_all_facts(
    store: Store, observer: Observer, outcome: Outcome
) -> None:
    for number, (fields, told) in enumerate(FACTS):
        if outcome is Outcome.SNOOZE:
            told = {"delay_ms": 7}
        key = {"unique_key": b"%d" % number} if "unique_key" in fields else {}
        [job] = await store.producer.enqueue([Envelope(kind="mail", **fields | key)])
        [lease] = await start(observer, [job.id])
        facts = Facts(
            retention_ms=fields.get("retention_ms", 0),
            throttle_key_held="unique_window_ms" in fields,
            delay_ms=told.get("delay_ms", 0),
            max_attempts=fields.get("max_attempts", 25),
        )
        [settlement] = await store.leases.acknowledge(
            [Acknowledgement(lease=lease, outcome=outcome, **told)]
        )
        assert settlement.state == apply(State.RUNNING, Event(outcome), facts), fields
        row = await job_row(observer, job.id)
        assert (DELETED if row is None else row["state"]) == settlement.state
