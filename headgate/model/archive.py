"""The archive: copies of evicted jobs, by queue for reading and by month for storing."""

from typing import Any

import msgspec

from headgate.model.errors import InvalidRequest
from headgate.model.limits import MAX_MS, check_name


class ArchivedJob(msgspec.Struct, kw_only=True):
    """An evicted job as the archive of its queue keeps it. `state` is how it ended."""

    id: str
    kind: str
    queue: str
    state: str
    fingerprint: str
    attempt: int
    crash_attempt: int
    errors: list[dict[str, Any]]
    finalized_at_ms: int
    evicted_at_ms: int
    archive_retention_ms: int


class ArchivePage(msgspec.Struct, kw_only=True):
    """What was evicted last comes first. `next_cursor` None means that there is no more."""

    jobs: list[ArchivedJob]
    next_cursor: str | None


class ArchivePolicy(msgspec.Struct, frozen=True):
    """A queue whose evicted jobs are archived, and for how long."""

    queue: str
    archive_retention_ms: int


class ArchiveMonth(msgspec.Struct, kw_only=True, frozen=True):
    """A month of the archive in UTC, such as 202611. `open`: it is not over yet.

    `rows_estimated` is as of the database's last analysis, None before the first.
    """

    month: str
    open: bool
    rows_estimated: int | None
    bytes: int


def judge_archive_policy(queue: str, archive_retention_ms: int) -> None:
    """Raises `InvalidRequest` for a policy that cannot be kept."""
    if archive_retention_ms > MAX_MS:
        raise InvalidRequest("archive retention is too large")
    if not queue or archive_retention_ms < 1:
        raise InvalidRequest("queue and archive retention >= 1ms are required")
    check_name("queue", queue)
