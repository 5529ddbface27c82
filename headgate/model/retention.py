"""How long things are kept that nobody asks for any more, and what an eviction leaves behind."""

from typing import Final

import msgspec

from headgate.model.limits import check_milliseconds

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
