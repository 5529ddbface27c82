"""The transition table, pair by pair, and what must hold along every path through it."""

from collections.abc import Set
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.model.conditions import Condition, Effect, Facts
from headgate.model.lifecycle import (
    DELETED,
    LIVE,
    OPERATOR_ACTIONS,
    TERMINAL,
    TRANSITIONS,
    Event,
    OperatorAction,
    Outcome,
    State,
    UndefinedTransition,
    apply,
    transition,
)

ALL_SOURCES: tuple[State | None, ...] = (None, *State)

# Facts of a job that is kept, has attempts and crashes left, and is wanted now.
ORDINARY = Facts(retention_ms=1_000, attempt=0, max_attempts=2, crash_attempt=0, crash_limit=2)

facts_strategy = st.builds(
    Facts,
    pending=st.booleans(),
    later=st.booleans(),
    retention_ms=st.integers(0, 3),
    throttle_key_held=st.booleans(),
    attempt=st.integers(0, 4),
    max_attempts=st.integers(1, 4),
    crash_attempt=st.integers(0, 4),
    crash_limit=st.integers(1, 4),
)
event_strategy = st.sampled_from(Event)

# Written out once more by hand, so that no edit of the table goes unseen.
EDGES_OF_AN_ORDINARY_JOB = {
    (None, "enqueued"): "available",
    ("scheduled", "debounced"): "scheduled",
    ("available", "debounced"): "scheduled",
    ("retryable", "debounced"): "scheduled",
    ("scheduled", "schedule_due"): "available",
    ("retryable", "backoff_due"): "available",
    ("available", "admitted"): "running",
    ("available", "saturated_discard"): "archived",
    ("available", "saturated_cancel"): "cancelled",
    ("running", "success"): "completed",
    ("running", "retry"): "retryable",
    ("running", "skip"): "archived",
    ("running", "revoke"): "deleted",
    ("running", "snooze"): "scheduled",
    ("running", "rate_limited"): "available",
    ("running", "undecodable"): "undecodable",
    ("running", "checkpoint_stale"): "undecodable",
    ("running", "deadline_exceeded"): "archived",
    ("running", "lease_lost"): "retryable",
    ("running", "displaced"): "cancelled",
    ("scheduled", "fingerprint_quarantined"): "quarantined",
    ("available", "fingerprint_quarantined"): "quarantined",
    ("retryable", "fingerprint_quarantined"): "quarantined",
    ("completed", "retention_lapsed"): "deleted",
    ("archived", "retention_lapsed"): "deleted",
    ("cancelled", "retention_lapsed"): "deleted",
    ("undecodable", "retention_lapsed"): "deleted",
    ("pending", "operator_promote"): "available",
    ("archived", "operator_retry"): "available",
    ("cancelled", "operator_retry"): "available",
    ("undecodable", "operator_retry"): "available",
    ("pending", "operator_cancel"): "cancelled",
    ("scheduled", "operator_cancel"): "cancelled",
    ("available", "operator_cancel"): "cancelled",
    ("running", "operator_cancel"): "cancelled",
    ("retryable", "operator_cancel"): "cancelled",
    ("quarantined", "operator_release"): "available",
    ("pending", "operator_delete"): "deleted",
    ("scheduled", "operator_delete"): "deleted",
    ("available", "operator_delete"): "deleted",
    ("retryable", "operator_delete"): "deleted",
    ("completed", "operator_delete"): "deleted",
    ("archived", "operator_delete"): "deleted",
    ("cancelled", "operator_delete"): "deleted",
    ("quarantined", "operator_delete"): "deleted",
    ("undecodable", "operator_delete"): "deleted",
}

# The other arm of each event that has two or three.
EDGES_UNDER_A_CONDITION = [
    (None, Event.ENQUEUED, Facts(pending=True), State.PENDING),
    (None, Event.ENQUEUED, Facts(pending=True, later=True), State.PENDING),
    (None, Event.ENQUEUED, Facts(later=True), State.SCHEDULED),
    (State.RUNNING, Event.SUCCESS, Facts(retention_ms=0), DELETED),
    (State.RUNNING, Event.SUCCESS, Facts(throttle_key_held=True), State.COMPLETED),
    (State.RUNNING, Event.RETRY, Facts(attempt=1, max_attempts=2), State.ARCHIVED),
    (State.RUNNING, Event.RETRY, Facts(attempt=7, max_attempts=2), State.ARCHIVED),
    (
        State.RUNNING,
        Event.LEASE_LOST,
        Facts(crash_attempt=2, crash_limit=3),
        State.QUARANTINED,
    ),
    (State.RUNNING, Event.LEASE_LOST, Facts(crash_attempt=1, crash_limit=3), State.RETRYABLE),
]

# Whatever frees a slot: each of these must be counted out of the running jobs exactly once.
EDGES_OUT_OF_RUNNING = {
    ("success", "completed"),
    ("success", "deleted"),
    ("retry", "retryable"),
    ("retry", "archived"),
    ("skip", "archived"),
    ("revoke", "deleted"),
    ("snooze", "scheduled"),
    ("rate_limited", "available"),
    ("rate_limited", "scheduled"),
    ("undecodable", "undecodable"),
    ("checkpoint_stale", "undecodable"),
    ("deadline_exceeded", "archived"),
    ("lease_lost", "retryable"),
    ("lease_lost", "quarantined"),
    ("displaced", "cancelled"),
    ("operator_cancel", "cancelled"),
}


@pytest.mark.parametrize(("source", "event"), list(product(ALL_SOURCES, Event)))
def test_every_pair_of_state_and_event(source: State | None, event: Event) -> None:
    expected = EDGES_OF_AN_ORDINARY_JOB.get((source, str(event)))
    if expected is None:
        with pytest.raises(UndefinedTransition) as refused:
            apply(source, event, ORDINARY)
        assert (refused.value.source, refused.value.event) == (source, event)
    else:
        assert apply(source, event, ORDINARY) == expected


@pytest.mark.parametrize(("source", "event", "facts", "target"), EDGES_UNDER_A_CONDITION)
def test_the_other_arms(source: State | None, event: Event, facts: Facts, target: str) -> None:
    assert apply(source, event, facts) == target


def test_every_edge_out_of_running_is_listed() -> None:
    leaving = {(str(t.event), str(t.target)) for t in TRANSITIONS if t.source is State.RUNNING}
    assert leaving == EDGES_OUT_OF_RUNNING


def test_states_sort_as_the_database_sorts_them() -> None:
    order = "pending scheduled available running retryable "
    order += "completed archived cancelled quarantined undecodable"
    assert " ".join(State) == order


def test_live_and_terminal_part_the_states() -> None:
    assert set(State) == LIVE | TERMINAL
    assert not LIVE & TERMINAL
    assert State.PENDING in LIVE


def test_every_outcome_is_an_event_of_a_running_job() -> None:
    for outcome in Outcome:
        apply(State.RUNNING, Event(outcome), ORDINARY)


def test_an_undefined_transition_says_what_it_was() -> None:
    with pytest.raises(UndefinedTransition, match=r"^retry is not defined from completed$"):
        apply(State.COMPLETED, Event.RETRY, ORDINARY)
    with pytest.raises(UndefinedTransition, match=r"^success is not defined from nothing$"):
        apply(None, Event.SUCCESS, ORDINARY)


@given(facts_strategy)
def test_exactly_one_arm_of_a_defined_pair_holds(facts: Facts) -> None:
    for source, event in {(t.source, t.event) for t in TRANSITIONS}:
        arms = [t for t in TRANSITIONS if t.source is source and t.event is event]
        assert sum(t.when.holds(facts) for t in arms) == 1


@given(st.sampled_from(sorted(TERMINAL)), event_strategy, facts_strategy)
def test_a_terminal_job_never_leaves_by_itself(state: State, event: Event, facts: Facts) -> None:
    try:
        target = apply(state, event, facts)
    except UndefinedTransition:
        return
    by_operator = event.startswith("operator_")
    assert by_operator or (event is Event.RETENTION_LAPSED and target == DELETED)


@given(event_strategy, facts_strategy)
def test_a_pending_job_leaves_only_by_an_operator(event: Event, facts: Facts) -> None:
    try:
        apply(State.PENDING, event, facts)
    except UndefinedTransition:
        return
    assert event.startswith("operator_")


@given(st.lists(event_strategy, max_size=40), facts_strategy)
def test_counters_move_only_on_their_own_edges(events: list[Event], facts: Facts) -> None:
    state: State | None = None
    fence = attempt = crash_attempt = entered_running = returned_failures = lost_leases = 0
    for event in events:
        try:
            edge = transition(state, event, facts)
        except UndefinedTransition:
            continue
        fence += Effect.FENCE in edge.effects
        attempt += Effect.ATTEMPT in edge.effects
        crash_attempt += Effect.CRASH_ATTEMPT in edge.effects
        returned_failures += event is Event.RETRY
        lost_leases += event is Event.LEASE_LOST
        if edge.target == State.RUNNING:
            entered_running += 1
        if edge.target == DELETED:
            return
        state = State(edge.target)
        # A displaced holder loses its fence as well: the fence may run ahead, never behind.
        assert fence >= entered_running
        assert (attempt, crash_attempt) == (returned_failures, lost_leases)


def test_quarantined_jobs_are_exempt_from_retention() -> None:
    with pytest.raises(UndefinedTransition):
        apply(State.QUARANTINED, Event.RETENTION_LAPSED, ORDINARY)


def test_a_release_forgives_the_crashes_and_nothing_else_does() -> None:
    forgiving = {t.event for t in TRANSITIONS if Effect.CRASHES_FORGIVEN in t.effects}
    assert forgiving == {Event.OPERATOR_RELEASE}


def test_every_state_can_be_reached_and_left() -> None:
    assert {t.target for t in TRANSITIONS} == {*State, DELETED}
    assert {t.source for t in TRANSITIONS} == {None, *State}


def test_every_condition_states_its_rule_and_is_used() -> None:
    assert {t.when for t in TRANSITIONS} == set(Condition)
    assert [c for c in Condition if not c.rule] == [Condition.ALWAYS]


def test_operator_actions() -> None:
    expected: dict[OperatorAction, Set[State]] = {
        OperatorAction.PROMOTE: {State.PENDING},
        OperatorAction.RETRY: {State.ARCHIVED, State.CANCELLED, State.UNDECODABLE},
        OperatorAction.CANCEL: LIVE,
        OperatorAction.DELETE: set(State) - {State.RUNNING},
        OperatorAction.RESCHEDULE: {State.SCHEDULED, State.RETRYABLE},
        OperatorAction.EDIT_PAYLOAD: set(State) - {State.RUNNING},
        OperatorAction.RELEASE: {State.QUARANTINED},
    }
    assert dict(OPERATOR_ACTIONS) == expected
