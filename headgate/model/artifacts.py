"""What a handler leaves with its job while it runs: steps, output, progress; and their bounds.

A result is an artifact too, but it comes with the report of success.
"""

from typing import Final

import msgspec

from headgate.model.errors import InvalidRequest
from headgate.model.limits import MAX_INT32, check_characters

MAX_OPAQUE_BYTES: Final = 32 * 1_048_576
MAX_PROGRESS: Final = 9_007_199_254_740_991
"""The largest integer that every reader of JSON keeps exact."""
MAX_PROGRESS_MESSAGE_BYTES: Final = 512


class Stamp(msgspec.Struct, frozen=True):
    """Which attempt wrote it, by its fence, and when on the database's clock."""

    fence: int
    updated_at_ms: int


class Output(msgspec.Struct, kw_only=True):
    """Bytes that a handler published while it ran; the newest replace the ones before."""

    schema_version: int
    bytes: bytes
    fence: int
    updated_at_ms: int


class Progress(msgspec.Struct, kw_only=True):
    """How far a handler said it had come; `current` of `total`."""

    current: int
    total: int
    message: str | None
    fence: int
    updated_at_ms: int


class Kept(msgspec.Struct, kw_only=True, frozen=True):
    """What there is of a job beside itself: the progress, and how many bytes of the rest; null for
    what there is none of.
    """

    result_bytes: int | None
    output_bytes: int | None
    progress: Progress | None


class Steps(msgspec.Struct, kw_only=True):
    """Where a handler stands among its steps, as it writes it down before it goes on.

    `cursor` belongs to `cursor_step`. `schema_version` and `step_set_hash` tell a later attempt
    whether it still has the same steps; 0 and "" say nothing.
    """

    completed_steps: list[str] = []
    in_progress_step: str | None = None
    cursor_step: str | None = None
    cursor: bytes | None = None
    schema_version: int = 0
    step_set_hash: str = ""


class Checkpoint(Steps, kw_only=True):
    """The steps of a job with what the store adds; all empty for a job that has none."""

    last_completed_step: str | None = None
    crashes_by_step: dict[str, int] = {}


def judge_output(schema_version: int, data: bytes) -> None:
    """Raises `InvalidRequest` for an output that no row can take."""
    if schema_version < 1:
        raise InvalidRequest("output schema_version must be greater than zero")
    if schema_version > MAX_INT32:
        raise InvalidRequest("output schema_version exceeds the portable signed-integer limit")
    if len(data) > MAX_OPAQUE_BYTES:
        raise InvalidRequest("output bytes exceed the 32 MiB limit")


def judge_progress(current: int, total: int, message: str | None) -> None:
    """Raises `InvalidRequest` for a report of progress that no row can take."""
    if total < 1:
        raise InvalidRequest("progress total must be greater than zero")
    if current < 0:
        raise InvalidRequest("progress current must be >= 0")
    if current > total:
        raise InvalidRequest("progress current must not exceed total")
    if total > MAX_PROGRESS:
        raise InvalidRequest("progress total exceeds the portable JSON safe-integer limit")
    if message is None:
        return
    check_characters("progress message", message)
    if len(message.encode()) > MAX_PROGRESS_MESSAGE_BYTES:
        raise InvalidRequest(
            f"progress message exceeds the {MAX_PROGRESS_MESSAGE_BYTES}-byte limit"
        )


def judge_steps(steps: Steps) -> None:
    """Raises `InvalidRequest` for a checkpoint that no row can take."""
    for name in (*steps.completed_steps, steps.in_progress_step or "", steps.cursor_step or ""):
        check_characters("step name", name)
    check_characters("step_set_hash", steps.step_set_hash)
    if not 0 <= steps.schema_version <= MAX_INT32:
        raise InvalidRequest("checkpoint schema_version exceeds the portable signed-integer limit")
    if steps.cursor is not None and len(steps.cursor) > MAX_OPAQUE_BYTES:
        raise InvalidRequest("checkpoint cursor bytes exceed the 32 MiB limit")
