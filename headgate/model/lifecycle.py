"""The life of a job as data: every state, every event and every edge between them.

This table is the one place that says where a job may go. Statements, the gate and the duties
implement it; the tests walk it; the diagram in the documentation is drawn from it.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from headgate.model.conditions import Condition, Effect, Facts
from headgate.model.errors import HeadgateError


class State(StrEnum):
    """Where a job is, in the order in which the database sorts the states."""

    PENDING = "pending"
    SCHEDULED = "scheduled"
    AVAILABLE = "available"
    RUNNING = "running"
    RETRYABLE = "retryable"
    COMPLETED = "completed"
    ARCHIVED = "archived"
    CANCELLED = "cancelled"
    QUARANTINED = "quarantined"
    UNDECODABLE = "undecodable"


DELETED: Final = "deleted"
"""Where a job goes whose row is gone. It is no state: no row ever holds it."""

Destination = State | Literal["deleted"]

LIVE: Final = frozenset(
    {State.PENDING, State.SCHEDULED, State.AVAILABLE, State.RUNNING, State.RETRYABLE}
)
"""Unfinished: these count against the intake limit of a queue and hold a lifecycle unique key."""

TERMINAL: Final = frozenset(State) - LIVE
"""Finished: no job leaves one of these by itself, except by the deletion that retention brings."""


class Outcome(StrEnum):
    """How the holder of a lease may end its attempt.

    A lost lease is no outcome: nobody is left to report it, the store finds out by itself.
    """

    SUCCESS = "success"
    RETRY = "retry"
    SKIP = "skip"
    REVOKE = "revoke"
    SNOOZE = "snooze"
    RATE_LIMITED = "rate_limited"
    UNDECODABLE = "undecodable"


class Event(StrEnum):
    """What can happen to a job. The seven outcomes keep their names: `Event(outcome)`."""

    ENQUEUED = "enqueued"
    DEBOUNCED = "debounced"
    SCHEDULE_DUE = "schedule_due"
    BACKOFF_DUE = "backoff_due"
    ADMITTED = "admitted"
    SATURATED_DISCARD = "saturated_discard"
    SATURATED_CANCEL = "saturated_cancel"
    SUCCESS = "success"
    RETRY = "retry"
    SKIP = "skip"
    REVOKE = "revoke"
    SNOOZE = "snooze"
    RATE_LIMITED = "rate_limited"
    UNDECODABLE = "undecodable"
    CHECKPOINT_STALE = "checkpoint_stale"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    LEASE_LOST = "lease_lost"
    DISPLACED = "displaced"
    FINGERPRINT_QUARANTINED = "fingerprint_quarantined"
    RETENTION_LAPSED = "retention_lapsed"
    OPERATOR_PROMOTE = "operator_promote"
    OPERATOR_RETRY = "operator_retry"
    OPERATOR_CANCEL = "operator_cancel"
    OPERATOR_RELEASE = "operator_release"
    OPERATOR_DELETE = "operator_delete"


class OperatorAction(StrEnum):
    """What an operator may ask of one job, of a list of ids, or of a selection."""

    PROMOTE = "promote"
    RETRY = "retry"
    CANCEL = "cancel"
    DELETE = "delete"
    RESCHEDULE = "reschedule"
    EDIT_PAYLOAD = "edit_payload"
    RELEASE = "release"


class Transition(msgspec.Struct, frozen=True):
    """One edge. `source` None means that no row exists yet."""

    source: State | None
    event: Event
    target: Destination
    when: Condition = Condition.ALWAYS
    effects: tuple[Effect, ...] = ()


def _from_each(
    sources: tuple[State, ...], event: Event, target: Destination, *effects: Effect
) -> tuple[Transition, ...]:
    return tuple(Transition(source, event, target, effects=effects) for source in sources)


TRANSITIONS: Final[tuple[Transition, ...]] = (
    Transition(None, Event.ENQUEUED, State.PENDING, Condition.HELD_BACK),
    Transition(None, Event.ENQUEUED, State.SCHEDULED, Condition.DUE_LATER),
    Transition(None, Event.ENQUEUED, State.AVAILABLE, Condition.DUE_NOW),
    # A pending holder takes the new payload but stays: only an operator lets it go.
    *_from_each(
        (State.SCHEDULED, State.AVAILABLE, State.RETRYABLE), Event.DEBOUNCED, State.SCHEDULED
    ),
    Transition(State.SCHEDULED, Event.SCHEDULE_DUE, State.AVAILABLE),
    Transition(State.RETRYABLE, Event.BACKOFF_DUE, State.AVAILABLE),
    Transition(State.AVAILABLE, Event.ADMITTED, State.RUNNING, effects=(Effect.FENCE,)),
    Transition(State.AVAILABLE, Event.SATURATED_DISCARD, State.ARCHIVED),
    Transition(State.AVAILABLE, Event.SATURATED_CANCEL, State.CANCELLED),
    Transition(State.RUNNING, Event.SUCCESS, State.COMPLETED, Condition.KEPT),
    Transition(State.RUNNING, Event.SUCCESS, DELETED, Condition.NOT_KEPT),
    Transition(
        State.RUNNING, Event.RETRY, State.RETRYABLE, Condition.ATTEMPTS_LEFT, (Effect.ATTEMPT,)
    ),
    Transition(
        State.RUNNING, Event.RETRY, State.ARCHIVED, Condition.ATTEMPTS_SPENT, (Effect.ATTEMPT,)
    ),
    Transition(State.RUNNING, Event.SKIP, State.ARCHIVED),
    Transition(State.RUNNING, Event.REVOKE, DELETED),
    Transition(State.RUNNING, Event.SNOOZE, State.SCHEDULED),
    Transition(State.RUNNING, Event.RATE_LIMITED, State.AVAILABLE, Condition.AT_ONCE),
    # An available job is always due, so a delay puts it where due times are watched.
    Transition(State.RUNNING, Event.RATE_LIMITED, State.SCHEDULED, Condition.DELAYED),
    Transition(State.RUNNING, Event.UNDECODABLE, State.UNDECODABLE),
    Transition(State.RUNNING, Event.CHECKPOINT_STALE, State.UNDECODABLE),
    Transition(State.RUNNING, Event.DEADLINE_EXCEEDED, State.ARCHIVED),
    Transition(
        State.RUNNING,
        Event.LEASE_LOST,
        State.RETRYABLE,
        Condition.CRASHES_TOLERATED,
        (Effect.CRASH_ATTEMPT,),
    ),
    Transition(
        State.RUNNING,
        Event.LEASE_LOST,
        State.QUARANTINED,
        Condition.CRASH_LIMIT_REACHED,
        (Effect.CRASH_ATTEMPT,),
    ),
    Transition(State.RUNNING, Event.DISPLACED, State.CANCELLED, effects=(Effect.FENCE,)),
    # A pending job is not parked: releasing it would put it in the queue without a promotion.
    *_from_each(
        (State.SCHEDULED, State.AVAILABLE, State.RETRYABLE),
        Event.FINGERPRINT_QUARANTINED,
        State.QUARANTINED,
    ),
    *_from_each(
        (State.COMPLETED, State.ARCHIVED, State.CANCELLED, State.UNDECODABLE),
        Event.RETENTION_LAPSED,
        DELETED,
    ),
    Transition(State.PENDING, Event.OPERATOR_PROMOTE, State.AVAILABLE),
    *_from_each(
        (State.ARCHIVED, State.CANCELLED, State.UNDECODABLE), Event.OPERATOR_RETRY, State.AVAILABLE
    ),
    *_from_each(
        (State.PENDING, State.SCHEDULED, State.AVAILABLE, State.RUNNING, State.RETRYABLE),
        Event.OPERATOR_CANCEL,
        State.CANCELLED,
    ),
    Transition(
        State.QUARANTINED,
        Event.OPERATOR_RELEASE,
        State.AVAILABLE,
        effects=(Effect.CRASHES_FORGIVEN,),
    ),
    *_from_each(
        tuple(state for state in State if state is not State.RUNNING),
        Event.OPERATOR_DELETE,
        DELETED,
    ),
)
"""Every edge there is. A pair of state and event that is not here cannot happen."""


class UndefinedTransition(HeadgateError):
    """The table has no edge for this event out of this state."""

    def __init__(self, source: State | None, event: Event) -> None:
        super().__init__(f"{event} is not defined from {source or 'nothing'}")
        self.source = source
        self.event = event


_EDGES: Final[Mapping[tuple[State | None, Event], tuple[Transition, ...]]] = {
    (source, event): edges
    for source in (None, *State)
    for event in Event
    if (edges := tuple(t for t in TRANSITIONS if t.source is source and t.event is event))
}


def transition(source: State | None, event: Event, facts: Facts) -> Transition:
    """The one edge that `event` takes out of `source`; `UndefinedTransition` when none does."""
    for edge in _EDGES.get((source, event), ()):
        if edge.when.holds(facts):
            return edge
    raise UndefinedTransition(source, event)


def apply(source: State | None, event: Event, facts: Facts) -> Destination:
    """Where `event` takes a job that is in `source`; `UndefinedTransition` when nowhere."""
    return transition(source, event, facts).target


def _sources(event: Event) -> frozenset[State]:
    return frozenset(t.source for t in TRANSITIONS if t.event is event and t.source is not None)


OPERATOR_ACTIONS: Final[Mapping[OperatorAction, frozenset[State]]] = MappingProxyType(
    {
        OperatorAction.PROMOTE: _sources(Event.OPERATOR_PROMOTE),
        OperatorAction.RETRY: _sources(Event.OPERATOR_RETRY),
        OperatorAction.CANCEL: _sources(Event.OPERATOR_CANCEL),
        OperatorAction.DELETE: _sources(Event.OPERATOR_DELETE),
        OperatorAction.RELEASE: _sources(Event.OPERATOR_RELEASE),
        OperatorAction.RESCHEDULE: frozenset({State.SCHEDULED, State.RETRYABLE}),
        OperatorAction.EDIT_PAYLOAD: frozenset(State) - {State.RUNNING},
    }
)
"""The states an action is defined from, the same for one job, a list of ids and a selection."""
