"""What an operator reads when an action is not defined, and what a selection reaches."""

import pytest

from headgate.model.lifecycle import OPERATOR_ACTIONS, OperatorAction, State
from headgate.model.operators import BULK_ACTIONS, bulk_states, refusal


@pytest.mark.parametrize(
    ("action", "state", "text"),
    [
        (OperatorAction.PROMOTE, "available", "operator_promote is defined only from pending"),
        (
            OperatorAction.RETRY,
            "available",
            "operator_retry is only defined from archived, cancelled, or undecodable;"
            " job j1 is available",
        ),
        (OperatorAction.CANCEL, "completed", "operator_cancel is not defined from completed"),
        (OperatorAction.DELETE, "running", "cannot delete a running job; cancel it first"),
        (
            OperatorAction.RESCHEDULE,
            "running",
            "reschedule is only defined for scheduled/retryable; job j1 is running",
        ),
        (OperatorAction.EDIT_PAYLOAD, "running", "cannot edit a running job's payload"),
        (
            OperatorAction.RELEASE,
            "archived",
            "operator_release is only defined from quarantined; job j1 is archived",
        ),
    ],
)
def test_refusals(action: OperatorAction, state: str, text: str) -> None:
    assert refusal(action, "j1", state).message == text
    assert refusal(action, "j1", State(state)).message == text


def test_bulk_retry_takes_archived_alone_unless_the_state_is_named() -> None:
    assert bulk_states(OperatorAction.RETRY) == {State.ARCHIVED}
    assert bulk_states(OperatorAction.RETRY, "cancelled") == {State.CANCELLED}
    assert bulk_states(OperatorAction.RETRY, "undecodable") == {State.UNDECODABLE}


@pytest.mark.parametrize("action", [OperatorAction.CANCEL, OperatorAction.DELETE])
def test_a_selection_reaches_what_a_single_action_does(action: OperatorAction) -> None:
    assert bulk_states(action) == OPERATOR_ACTIONS[action]


@pytest.mark.parametrize("action", BULK_ACTIONS)
@pytest.mark.parametrize("state", ["", "no_such_state", "Running"])
def test_an_unknown_state_reaches_nothing(action: OperatorAction, state: str) -> None:
    assert bulk_states(action, state) == frozenset()


def test_a_selection_never_reaches_running_jobs_except_to_cancel_them() -> None:
    reaching = {action for action in BULK_ACTIONS if bulk_states(action, "running")}
    assert reaching == {OperatorAction.CANCEL}
