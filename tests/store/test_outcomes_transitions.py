"""The store against the transition table: every edge that is not an operator's or the gate's.

Each edge is driven by the store's own means and compared with the table. An edge that is added to
the table without a way to drive it fails here.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headgate.model.conditions import Condition, Effect, Facts
from headgate.model.envelope import Envelope
from headgate.model.errors import DuplicateJob
from headgate.model.job import Acknowledgement, Lease
from headgate.model.lifecycle import (
    DELETED,
    TRANSITIONS,
    Destination,
    Event,
    Outcome,
    State,
    Transition,
    apply,
)
from headgate.store.store import Store
from tests.store.journeys import FAR, bring
from tests.store.rows import HOUR_MS, Observer, assert_lanes, job_row, now_ms, start

LEASE_COLUMNS = ("lease_id", "lease_expires_at_ms", "claimed_by")

# What each condition wants of a job, and of a report.
ENVELOPES: dict[Condition, dict[str, Any]] = {
    Condition.ALWAYS: {},
    Condition.HELD_BACK: {"pending": True},
    Condition.DUE_LATER: {"scheduled_at_ms": FAR},
    Condition.DUE_NOW: {},
    Condition.AT_ONCE: {},
    Condition.DELAYED: {},
    Condition.KEPT: {"retention_ms": HOUR_MS},
    Condition.NOT_KEPT: {},
    Condition.ATTEMPTS_LEFT: {"max_attempts": 2},
    Condition.ATTEMPTS_SPENT: {"max_attempts": 1},
    Condition.CRASHES_TOLERATED: {},
    Condition.CRASH_LIMIT_REACHED: {},
}
DELAYS = {Condition.DELAYED: 5_000, Condition.AT_ONCE: None}
CRASHES = {Condition.CRASHES_TOLERATED: 1, Condition.CRASH_LIMIT_REACHED: 2}

REPORTED = {Event(outcome): outcome for outcome in Outcome} | {
    # The worker reports these as what they amount to.
    Event.CHECKPOINT_STALE: Outcome.UNDECODABLE,
    Event.DEADLINE_EXCEEDED: Outcome.SKIP,
}

# Driven by the tests of whoever does it.
GATE = {Event.ADMITTED, Event.SATURATED_DISCARD, Event.SATURATED_CANCEL, Event.DISPLACED}
OPERATORS = {event for event in Event if event.name.startswith("OPERATOR_")}
SWEEPS = {Event.RETENTION_LAPSED, Event.FINGERPRINT_QUARANTINED}

Drive = Callable[[Store, Observer, Transition], Awaitable[tuple[str, dict[str, Any] | None]]]
"""Takes a job along an edge; its id, and its row as it was right before."""


def envelope(edge: Transition, **fields: Any) -> Envelope:
    return Envelope(kind="mail", partition_key="p", **ENVELOPES[edge.when] | fields)


async def enqueue(
    store: Store, observer: Observer, edge: Transition
) -> tuple[str, dict[str, Any] | None]:
    [job] = await store.producer.enqueue([envelope(edge)])
    return job.id, None


async def debounce(
    store: Store, observer: Observer, edge: Transition
) -> tuple[str, dict[str, Any] | None]:
    assert isinstance(edge.source, State)
    job_id = await bring(store, observer, envelope(edge, unique_key=b"k"), edge.source)
    before = await job_row(observer, job_id)
    with pytest.raises(DuplicateJob):
        await store.producer.enqueue(
            [Envelope(kind="mail", unique_key=b"k", unique_debounce_ms=HOUR_MS)]
        )
    return job_id, before


async def become_due(
    store: Store, observer: Observer, edge: Transition
) -> tuple[str, dict[str, Any] | None]:
    assert isinstance(edge.source, State)
    job_id = await bring(store, observer, envelope(edge), edge.source)
    await observer.execute("UPDATE headgate_job SET scheduled_at_ms = 1")
    # Its lane must come from the promotion, not from earlier in its life.
    await observer.execute("DELETE FROM headgate_active_partition")
    before = await job_row(observer, job_id)
    assert await store.upkeep.promote_due(10) == 1
    return job_id, before


async def report(
    store: Store, observer: Observer, edge: Transition
) -> tuple[str, dict[str, Any] | None]:
    job_id = await bring(store, observer, envelope(edge), State.RUNNING)
    await observer.execute("DELETE FROM headgate_active_partition")
    before = await job_row(observer, job_id)
    assert before is not None
    lease = Lease(job_id, before["lease_id"], before["fence"])
    delay_ms = DELAYS.get(edge.when, 5_000 if edge.event is Event.SNOOZE else None)
    [settlement] = await store.leases.acknowledge(
        [Acknowledgement(lease=lease, outcome=REPORTED[edge.event], error="e", delay_ms=delay_ms)]
    )
    assert settlement.state == edge.target
    return job_id, before


async def lose_lease(
    store: Store, observer: Observer, edge: Transition
) -> tuple[str, dict[str, Any] | None]:
    job_id = await bring(store, observer, envelope(edge), State.RUNNING)
    await observer.execute(
        "UPDATE headgate_job SET lease_expires_at_ms = 1, crash_attempt = $1", CRASHES[edge.when]
    )
    before = await job_row(observer, job_id)
    [reclaimed] = await store.upkeep.reclaim_expired(10)
    assert reclaimed.job_id == job_id
    return job_id, before


DRIVES: dict[Event, Drive] = {
    Event.ENQUEUED: enqueue,
    Event.DEBOUNCED: debounce,
    Event.SCHEDULE_DUE: become_due,
    Event.BACKOFF_DUE: become_due,
    Event.LEASE_LOST: lose_lease,
    **dict.fromkeys(REPORTED, report),
}

EDGES = [edge for edge in TRANSITIONS if edge.event not in GATE | OPERATORS | SWEEPS]


def name_of(edge: Transition) -> str:
    return f"{edge.source}-{edge.event}-{edge.target}"


def test_every_edge_is_somebodys() -> None:
    assert set(Event) == set(DRIVES) | GATE | OPERATORS | SWEEPS
    assert set(Condition) == set(ENVELOPES)


@pytest.mark.parametrize("edge", EDGES, ids=name_of)
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
    if edge.target is not State.RUNNING:
        assert all(row[column] is None for column in LEASE_COLUMNS)
        assert row["rate_charge"] == 0
    check_instants(edge, started, row)
    await assert_lanes(observer)


def check_counters(edge: Transition, before: dict[str, Any] | None, row: dict[str, Any]) -> None:
    old = before or {"fence": 0, "attempt": 0, "crash_attempt": 0}
    moved = {name: row[name] - old[name] for name in ("fence", "attempt", "crash_attempt")}
    assert moved == {
        "fence": int(Effect.FENCE in edge.effects),
        "attempt": int(Effect.ATTEMPT in edge.effects),
        "crash_attempt": int(Effect.CRASH_ATTEMPT in edge.effects),
    }


def check_instants(edge: Transition, started: int, row: dict[str, Any]) -> None:
    """A finished job says when it ended and when its attempt began; a waiting one neither."""
    target: Destination = edge.target
    finished = target in {State.COMPLETED, State.ARCHIVED, State.UNDECODABLE, State.QUARANTINED}
    if finished:
        assert started <= row["finalized_at_ms"]
        assert started <= row["claimed_at_ms"] <= row["finalized_at_ms"]
    else:
        assert row["finalized_at_ms"] is None
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
