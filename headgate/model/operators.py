"""What an operator is told when an action is not defined, and what a bulk action reaches."""

from collections.abc import Callable, Mapping
from typing import Final

from headgate.model.errors import InvalidRequest
from headgate.model.lifecycle import OPERATOR_ACTIONS, OperatorAction, State

ARCHIVE_REFUSED: Final = "operator_archive is not in the transition table"
"""Said to whoever asks to archive: jobs get there only by their own end."""

BULK_ACTIONS: Final = (OperatorAction.RETRY, OperatorAction.CANCEL, OperatorAction.DELETE)
"""What may be asked of a list of ids or of a selection."""

_REFUSALS: Final[Mapping[OperatorAction, Callable[[str, str], str]]] = {
    OperatorAction.PROMOTE: lambda job_id, state: "operator_promote is defined only from pending",
    OperatorAction.RETRY: lambda job_id, state: (
        "operator_retry is only defined from archived, cancelled, or undecodable;"
        f" job {job_id} is {state}"
    ),
    OperatorAction.CANCEL: lambda job_id, state: f"operator_cancel is not defined from {state}",
    OperatorAction.DELETE: lambda job_id, state: "cannot delete a running job; cancel it first",
    OperatorAction.RESCHEDULE: lambda job_id, state: (
        f"reschedule is only defined for scheduled/retryable; job {job_id} is {state}"
    ),
    OperatorAction.EDIT_PAYLOAD: lambda job_id, state: "cannot edit a running job's payload",
    OperatorAction.RELEASE: lambda job_id, state: (
        f"operator_release is only defined from quarantined; job {job_id} is {state}"
    ),
}


def refusal(action: OperatorAction, job_id: str, state: str) -> InvalidRequest:
    """The error for an action on a job whose `state` it is not defined from."""
    return InvalidRequest(_REFUSALS[action](job_id, state))


def bulk_states(action: OperatorAction, state: str | None = None) -> frozenset[State]:
    """The states a selection reaches, given the `state` that its selector names.

    A retry without a named state takes archived jobs alone, so that emptying the dead letters does
    not revive what an operator cancelled. A state that does not exist, or from which the action is
    not defined, reaches nothing.
    """
    defined = OPERATOR_ACTIONS[action]
    if state is not None:
        return frozenset(found for found in defined if found == state)
    if action is OperatorAction.RETRY:
        return frozenset({State.ARCHIVED})
    return defined
