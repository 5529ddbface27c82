"""How long things are kept that nobody asks for any more, and what an eviction leaves behind."""

from typing import Any, Final

import msgspec

from headgate.model.errors import InvalidRequest
from headgate.model.limits import MAX_MS, check_milliseconds, check_name

_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS


class RetentionPeriods(msgspec.Struct, kw_only=True, frozen=True):
    """How many milliseconds each kind of record is kept after it came to its end; 0 is for ever.

    `dead_letters_ms` is for jobs that ended archived, cancelled or undecodable and have no
    retention of their own. What a queue took in and completed is known by the minute for
    `minute_counters_ms`, then by the hour for `hour_counters_ms` from its beginning.
    `schedule_events_ms` is for schedules that were deleted. Raises `InvalidRequest` for a period
    that is negative or too long.
    """

    dead_letters_ms: int = 30 * _DAY_MS
    minute_counters_ms: int = 8 * _DAY_MS
    hour_counters_ms: int = 31 * _DAY_MS
    operations_ms: int = 7 * _DAY_MS
    workers_ms: int = _DAY_MS
    schedule_events_ms: int = 30 * _DAY_MS
    effects_ms: int = 30 * _DAY_MS
    idempotency_ms: int = _DAY_MS
    enqueue_keys_ms: int = _DAY_MS
    audit_ms: int = 90 * _DAY_MS

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            check_milliseconds(name, getattr(self, name))


class Evicted(msgspec.Struct, frozen=True):
    """A job whose retention is over; its row is gone. `archived`: a copy is in the archive."""

    job_id: str
    kind: str
    queue: str
    state: str
    archived: bool


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


def judge_archive_policy(queue: str, archive_retention_ms: int) -> None:
    """Raises `InvalidRequest` for a policy that cannot be kept."""
    if archive_retention_ms > MAX_MS:
        raise InvalidRequest("archive retention is too large")
    if not queue or archive_retention_ms < 1:
        raise InvalidRequest("queue and archive retention >= 1ms are required")
    check_name("queue", queue)
