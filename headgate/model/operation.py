"""Actions on a whole selection of jobs: what to select, and how far the work has come."""

from typing import Final

import msgspec

from headgate.model.errors import InvalidRequest
from headgate.model.lifecycle import LIVE, OPERATOR_ACTIONS, OperatorAction, State
from headgate.model.limits import check_characters, check_milliseconds
from headgate.model.operators import ARCHIVE_REFUSED, BULK_ACTIONS, bulk_states

DELETE_QUEUE: Final = "delete_queue"
"""The action of an operation that deletes a queue with all its jobs."""

STATUSES_OPEN: Final = ("pending", "running")
STATUSES_OVER: Final = ("completed", "failed", "cancelled")


class JobSelector(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """Every condition given must hold; None is no condition, "" is the empty name.

    `older_than_ms` takes jobs that were enqueued longer ago than that when the operation began.
    """

    queue: str | None = None
    state: str | None = None
    kind: str | None = None
    partition_key: str | None = None
    older_than_ms: int | None = None


class QueueDeletion(msgspec.Struct, kw_only=True, frozen=True):
    """The selection of an operation that deletes a queue; `intake_limit` is what it had before."""

    queue: str
    intake_limit: int | None = None

    @property
    def name(self) -> str:
        """The queue in the id of the operation: what is no ASCII letter or digit becomes `_`."""
        return "".join(c if c.isascii() and c.isalnum() else "_" for c in self.queue)


class Operation(msgspec.Struct, kw_only=True):
    """An action on a selection as the control API shows it.

    `status` is pending, running, completed, failed or cancelled. `affected` counts the jobs that
    were changed so far; `total_estimated` is how many there were to change at the beginning: exact
    where the selection names a queue or a state only or its search came to an end, else a lower
    bound.
    """

    id: str
    status: str
    affected: int
    total_estimated: int
    dry_run: bool
    error: str | None


class OperationEntry(Operation, kw_only=True):
    """An operation in the list of them, with what it was asked for.

    `selector` has the conditions that were given; that of the deletion of a queue names the queue.
    `finished_at_ms` is null while it is not over.
    """

    action: str
    selector: dict[str, str | int | None]
    created_at_ms: int
    finished_at_ms: int | None


def judge_bulk(action: str, selector: JobSelector) -> None:
    """Refuses what no operation can do; raises `InvalidRequest`.

    An archive first, then a selection without any condition, an unknown action, and values that no
    job can have. A state that does not exist is no error: it selects nothing.
    """
    if action == "archive":
        raise InvalidRequest(ARCHIVE_REFUSED)
    if selector == JobSelector():
        raise InvalidRequest("empty selector is rejected")
    if action not in BULK_ACTIONS:
        raise InvalidRequest(f"unknown action `{action}`")
    for name in ("queue", "state", "kind", "partition_key"):
        check_characters(name, getattr(selector, name) or "")
    if selector.older_than_ms is not None:
        check_milliseconds("older_than_ms", selector.older_than_ms)


def conditions(selector: JobSelector) -> dict[str, str | int]:
    """What a selection asks of each job beside its state, by name."""
    given = {name: getattr(selector, name) for name in JobSelector.__struct_fields__}
    return {name: value for name, value in given.items() if value is not None and name != "state"}


def reached_states(action: str, state: str | None) -> tuple[State, ...]:
    """The states that an operation reaches, in the order in which they are worked off."""
    if action == DELETE_QUEUE:
        reached = OPERATOR_ACTIONS[OperatorAction.DELETE]
    else:
        reached = bulk_states(OperatorAction(action), state)
    return tuple(found for found in State if found in reached)


def states_of_round(states: tuple[State, ...], round_number: int) -> tuple[State, ...]:
    """The states that one round of an operation works off.

    The first takes all of them, the next ones those between which jobs move by themselves: one may
    have gone from a state that was still to come to one that was done.
    """
    return states if round_number == 0 else tuple(state for state in states if state in LIVE)
