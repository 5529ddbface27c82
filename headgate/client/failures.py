"""What a task makes of the errors of its handler, and who hears of a job that is given up."""

from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

IsFailure: TypeAlias = Callable[[Exception], bool]
"""Whether an error is one of the job. What is not costs no attempt and comes back in a second."""

RetryPolicy: TypeAlias = Callable[[Any, Exception], timedelta | None]
"""How long to wait after a failed attempt, from its context and its error; None is the backoff."""


class DeathReason(StrEnum):
    """Why a job was given up."""

    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    SKIPPED = "skipped"
    DEADLINE_EXCEEDED = "deadline_exceeded"


class Death(msgspec.Struct, kw_only=True, frozen=True):
    """A job that was archived: nothing will run it again by itself."""

    job_id: str
    kind: str
    queue: str
    payload: bytes
    schema_version: int
    headers: dict[str, str]
    attempt: int
    reason: DeathReason
    error: str


DeathHandler: TypeAlias = Callable[[Death], Any]
"""Told of each job that is given up, `async` or not. Not told twice, and not at all when the worker
dies meanwhile: what must not be missed looks for archived jobs."""
