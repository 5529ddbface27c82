"""Schedules: what one is told to do, what it made of it, and the jobs of its ticks.

A tick has one job id and one unique key in all the world, so that it cannot be enqueued twice while
its job is there. When a spec is due is `headgate.model.schedule`'s business.
"""

from enum import StrEnum
from typing import Final

import msgspec

from headgate.model.envelope import DEFAULT_MAX_ATTEMPTS, DEFAULT_QUEUE, Envelope, prepare
from headgate.model.errors import InvalidRequest
from headgate.model.job import RequestKey
from headgate.model.limits import (
    MAX_BATCH_BYTES,
    MAX_MS,
    MAX_SCHEDULE_ID_BYTES,
    check_count,
    check_name,
)
from headgate.model.schedule import MAX_TICKS, due_ticks, next_after, validate

HOUR_MS: Final = 3_600_000
MAX_EVENTS: Final = 100
"""How many events of a schedule are kept, and how many one page may hold."""


class MissedPolicy(StrEnum):
    """What becomes of ticks that nobody enqueued in time: the newest alone, or several of them.

    `skip` and `run_once` do the same, as the next tick is kept where no process can forget it.
    """

    SKIP = "skip"
    RUN_ONCE = "run_once"
    BACKFILL = "backfill"


class TickOutcome(StrEnum):
    """What became of a tick."""

    ENQUEUED = "enqueued"
    DEDUPLICATED = "deduplicated"
    FAILED = "failed"
    SKIPPED = "skipped"


class Tick(msgspec.Struct, frozen=True):
    """What became of one tick."""

    tick_ms: int
    job_id: str
    outcome: TickOutcome
    reason: str


class ScheduleDefinition(msgspec.Struct, kw_only=True, frozen=True):
    """What a schedule is told to do: a job, and when to make it. Durations are milliseconds.

    `backfill_limit` is how many missed ticks `backfill` makes up for, the newest ones.
    """

    id: str
    kind: str
    spec: str
    payload: bytes = b""
    schema_version: int = 1
    queue: str = DEFAULT_QUEUE
    partition_key: str = ""
    rate_class: str = ""
    priority: int = 0
    weight: int = 1
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    timeout_ms: int = 0
    retention_ms: int = 0
    tags: tuple[str, ...] = ()
    on_missed: str = MissedPolicy.SKIP
    backfill_limit: int = 0
    paused: bool = False

    def job(self) -> Envelope:
        """A job as the ticks make it, but of no tick: one that somebody wants now."""
        return Envelope(
            kind=self.kind,
            schema_version=self.schema_version,
            payload=self.payload,
            queue=self.queue,
            partition_key=self.partition_key,
            rate_class=self.rate_class,
            priority=self.priority,
            weight=self.weight,
            max_attempts=self.max_attempts,
            timeout_ms=self.timeout_ms,
            retention_ms=self.retention_ms,
            tags=self.tags,
        )

    def tick(self, tick_ms: int) -> Envelope:
        """The job of one tick."""
        job = self.job()
        job.id = tick_id(self.id, tick_ms)
        job.unique_key = job.id.encode()
        job.periodic_schedule_id = self.id
        job.periodic_tick_ms = tick_ms
        return job


class Schedule(msgspec.Struct, kw_only=True, frozen=True):
    """A schedule as the control API shows it, without its payload."""

    id: str
    kind: str
    queue: str
    spec: str
    next_run_ms: int
    last_enqueued_ms: int | None
    on_missed: str
    backfill_limit: int
    paused: bool
    partition_key: str
    rate_class: str
    priority: int
    max_attempts: int
    retention_ms: int


class ScheduleDetail(Schedule, kw_only=True, frozen=True):
    """A schedule with what its jobs carry, where that was asked for."""

    payload: bytes | msgspec.UnsetType = msgspec.UNSET


class ScheduleEvent(msgspec.Struct, kw_only=True, frozen=True):
    """What became of one tick. `job_id` is its job, or the one that stood in its way."""

    event_id: int
    schedule_id: str
    tick_ms: int
    job_id: str
    outcome: str
    reason: str
    recorded_at_ms: int


class ScheduleEventPage(msgspec.Struct, kw_only=True, frozen=True):
    """Newest first. A full page has a `next_cursor`, even if nothing comes after it."""

    events: list[ScheduleEvent]
    next_cursor: int | None


class DueSchedule(msgspec.Struct, frozen=True):
    """A schedule whose next run is due, as it was seen. In the order of the sweep."""

    next_run_ms: int
    id: str


class Sweep(msgspec.Struct, frozen=True):
    """What is to be done about a due schedule: the ticks to enqueue, then the next run.

    `unfinished` says that more ticks are due than one sweep takes up, the next one among them. A
    spec that is not understood has no ticks; its schedule is looked at again later.
    """

    ticks: list[int]
    next_run_ms: int
    unfinished: bool = False
    invalid_spec: bool = False


def tick_id(schedule_id: str, tick_ms: int) -> str:
    """The id of a tick's job. A schedule's own id may contain colons; the last one decides."""
    return f"sched:{schedule_id}:{tick_ms}"


def manual_request(schedule_id: str, key: str) -> RequestKey:
    """The key of a request to run a schedule now. No kind contains a space, so its scope cannot
    meet that of an ordinary enqueue.
    """
    return RequestKey(f"schedule {schedule_id}", key)


def check_definition(definition: ScheduleDefinition) -> None:
    """Refuse with `InvalidRequest` what could fail when it is due, and name it.

    Judged are the policy, the spec, the id, and then every job of it as an enqueue would.
    """
    if definition.on_missed not in set(MissedPolicy):
        raise InvalidRequest("on_missed must be skip|run_once|backfill")
    validate(definition.spec)
    if not definition.id:
        raise InvalidRequest("schedule id must not be empty")
    check_name("schedule id", definition.id, max_bytes=MAX_SCHEDULE_ID_BYTES)
    prepare([definition.tick(MAX_MS)])
    if not definition.queue:
        raise InvalidRequest("queue must not be empty")
    for field in ("schema_version", "weight", "max_attempts"):
        if not getattr(definition, field):
            raise InvalidRequest(f"{field} must be >= 1")
    check_count("backfill_limit", definition.backfill_limit)


def plan_sweep(definition: ScheduleDefinition, next_run_ms: int, now_ms: int) -> Sweep:
    """What to do about a schedule whose next run is due now."""
    cap = definition.backfill_limit if definition.on_missed == MissedPolicy.BACKFILL else 1
    limit = min(MAX_TICKS, max(1, MAX_BATCH_BYTES // 2 // (len(definition.payload) + 1)))
    try:
        ticks = due_ticks(definition.spec, next_run_ms, now_ms, max(cap, 1), limit=limit + 1)
        if len(ticks) > limit:
            return Sweep(ticks[:limit], ticks[limit], unfinished=True)
        return Sweep(ticks, next_after(definition.spec, now_ms))
    except InvalidRequest:
        return Sweep([], now_ms + HOUR_MS, invalid_spec=True)
