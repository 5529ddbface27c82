"""How to take a job along each edge of the transition table, by the store's own means."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headgate.model.conditions import Condition
from headgate.model.envelope import Envelope
from headgate.model.errors import DuplicateJob
from headgate.model.job import Acknowledgement, Lease
from headgate.model.lifecycle import Event, Outcome, State, Transition
from headgate.store.store import Store
from tests.store.journeys import FAR, bring
from tests.store.rows import HOUR_MS, Observer, job_row

Driven = tuple[str, dict[str, Any] | None]
"""The id of the job, and its row as it was right before the edge."""

Drive = Callable[[Store, Observer, Transition], Awaitable[Driven]]

# What each condition wants of a job.
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
_DELAYS = {Condition.DELAYED: 5_000, Condition.AT_ONCE: None}
_CRASHES = {Condition.CRASHES_TOLERATED: 1, Condition.CRASH_LIMIT_REACHED: 2}

_REPORTED = {Event(outcome): outcome for outcome in Outcome} | {
    # The worker reports these as what they amount to.
    Event.CHECKPOINT_STALE: Outcome.UNDECODABLE,
    Event.DEADLINE_EXCEEDED: Outcome.SKIP,
}

_SATURATED = {
    Event.SATURATED_DISCARD: "discard",
    Event.SATURATED_CANCEL: "cancel_incoming",
    Event.DISPLACED: "cancel_running",
}


def envelope(edge: Transition, **fields: Any) -> Envelope:
    return Envelope(kind="mail", partition_key="p", **ENVELOPES[edge.when] | fields)


async def _brought(store: Store, observer: Observer, edge: Transition, **fields: Any) -> Driven:
    """A job at the source of the edge, in a lane that nobody knows any more."""
    assert isinstance(edge.source, State)
    job_id = await bring(store, observer, envelope(edge, **fields), edge.source)
    if edge.source is not State.AVAILABLE:
        # What registers the lane must be the edge, not something earlier in the job's life.
        await observer.execute("DELETE FROM headgate_active_partition")
    return job_id, await job_row(observer, job_id)


async def _enqueue(store: Store, observer: Observer, edge: Transition) -> Driven:
    [job] = await store.producer.enqueue([envelope(edge)])
    return job.id, None


async def _debounce(store: Store, observer: Observer, edge: Transition) -> Driven:
    job_id, before = await _brought(store, observer, edge, unique_key=b"k")
    with pytest.raises(DuplicateJob):
        await store.producer.enqueue(
            [Envelope(kind="mail", unique_key=b"k", unique_debounce_ms=HOUR_MS)]
        )
    return job_id, before


async def _become_due(store: Store, observer: Observer, edge: Transition) -> Driven:
    job_id, before = await _brought(store, observer, edge)
    await observer.execute("UPDATE headgate_job SET scheduled_at_ms = 1")
    assert await store.upkeep.promote_due(10) == 1
    return job_id, before


async def _admit(store: Store, observer: Observer, edge: Transition) -> Driven:
    job_id, before = await _brought(store, observer, edge)
    [claim] = await store.gate.admit("worker", ["default"], 1, HOUR_MS)
    assert claim.job_id == job_id
    return job_id, before


async def _saturate(store: Store, observer: Observer, edge: Transition) -> Driven:
    """One job runs under a ceiling of one, and another of its partition arrives."""
    running = await bring(store, observer, envelope(edge), State.RUNNING)
    incoming = await bring(store, observer, envelope(edge), State.AVAILABLE)
    await observer.execute(
        "INSERT INTO headgate_concurrency_limit VALUES ('one', 'default', 1, $1)",
        _SATURATED[edge.event],
    )
    job_id = running if edge.event is Event.DISPLACED else incoming
    before = await job_row(observer, job_id)
    await store.gate.admit("worker", ["default"], 10, HOUR_MS)
    return job_id, before


async def _report(store: Store, observer: Observer, edge: Transition) -> Driven:
    job_id, before = await _brought(store, observer, edge)
    assert before is not None
    lease = Lease(job_id, before["lease_id"], before["fence"])
    delay_ms = _DELAYS.get(edge.when, 5_000 if edge.event is Event.SNOOZE else None)
    report = Acknowledgement(
        lease=lease, outcome=_REPORTED[edge.event], error="e", delay_ms=delay_ms
    )
    [settlement] = await store.leases.acknowledge([report])
    assert settlement.state == edge.target
    return job_id, before


async def _lose_lease(store: Store, observer: Observer, edge: Transition) -> Driven:
    job_id, _ = await _brought(store, observer, edge)
    await observer.execute(
        "UPDATE headgate_job SET lease_expires_at_ms = 1, crash_attempt = $1", _CRASHES[edge.when]
    )
    before = await job_row(observer, job_id)
    [reclaimed] = await store.upkeep.reclaim_expired(10)
    assert reclaimed.job_id == job_id
    return job_id, before


async def _quarantine(store: Store, observer: Observer, edge: Transition) -> Driven:
    job_id, before = await _brought(store, observer, edge, fingerprint="bad")
    await observer.execute("INSERT INTO headgate_quarantine VALUES ('bad', 'mail', 3, 1)")
    assert await store.quarantine.sweep(10) == 1
    return job_id, before


async def _release(store: Store, observer: Observer, edge: Transition) -> Driven:
    job_id, before = await _brought(store, observer, edge, fingerprint="bad")
    await observer.execute("INSERT INTO headgate_quarantine VALUES ('bad', 'mail', 3, 1)")
    assert (await store.quarantine.release("bad")).released == 1
    return job_id, before


async def _evict(store: Store, observer: Observer, edge: Transition) -> Driven:
    job_id, before = await _brought(store, observer, edge)
    await observer.execute("UPDATE headgate_job SET finalized_at_ms = 1, retention_ms = 1")
    assert len(await store.retention.evict_retained(10)) == 1
    return job_id, before


async def _operate(store: Store, observer: Observer, edge: Transition) -> Driven:
    job_id, before = await _brought(store, observer, edge)
    action = getattr(store.control, edge.event.removeprefix("operator_"))
    await action(job_id)
    return job_id, before


DRIVES: dict[Event, Drive] = {
    Event.ENQUEUED: _enqueue,
    Event.DEBOUNCED: _debounce,
    Event.SCHEDULE_DUE: _become_due,
    Event.BACKOFF_DUE: _become_due,
    Event.ADMITTED: _admit,
    **dict.fromkeys(_SATURATED, _saturate),
    **dict.fromkeys(_REPORTED, _report),
    Event.LEASE_LOST: _lose_lease,
    Event.FINGERPRINT_QUARANTINED: _quarantine,
    Event.RETENTION_LAPSED: _evict,
    Event.OPERATOR_PROMOTE: _operate,
    Event.OPERATOR_RETRY: _operate,
    Event.OPERATOR_CANCEL: _operate,
    Event.OPERATOR_DELETE: _operate,
    Event.OPERATOR_RELEASE: _release,
}
