"""What became of an action that an operator asked of a list of jobs."""

from collections.abc import Sequence
from typing import Final

import msgspec

from headgate.model.errors import InvalidRequest, StoreError
from headgate.model.limits import check_characters
from headgate.model.operators import ARCHIVE_REFUSED, BULK_ACTIONS

MAX_ACTION_IDS: Final = 1_000
ARCHIVE: Final = "archive"
"""An action that exists by name only: each job refuses it."""


class ActionFailure(msgspec.Struct, frozen=True):
    """Why one job of the list was left as it was."""

    id: str
    reason: str


class ActionReport(msgspec.Struct, kw_only=True):
    """Every id of the list stands in one of the two, as often and in the order it was given."""

    succeeded: list[str]
    failed: list[ActionFailure]


def judge_actions(action: str, job_ids: Sequence[str]) -> None:
    """Refuses a list that is too long, then an action that does not exist, then odd characters.

    Raises `InvalidRequest`. `archive` passes: it is refused job by job.
    """
    if len(job_ids) > MAX_ACTION_IDS:
        raise InvalidRequest(f"at most {MAX_ACTION_IDS} ids per call")
    if action != ARCHIVE and action not in BULK_ACTIONS:
        raise InvalidRequest(f"unknown action `{action}`")
    for job_id in job_ids:
        check_characters("ids", job_id)


def reason_of(error: StoreError) -> str:
    """The error as one line of a report; a refusal without its general prefix."""
    return error.message if isinstance(error, InvalidRequest) else str(error)


def archive_refused(job_ids: Sequence[str]) -> ActionReport:
    """The report for a list that somebody asked to archive."""
    return ActionReport(
        succeeded=[], failed=[ActionFailure(job_id, ARCHIVE_REFUSED) for job_id in job_ids]
    )
