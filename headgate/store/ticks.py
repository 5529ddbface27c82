"""Takes up the due ticks of one schedule, in a transaction that holds its lock.

Jobs, their events and the next run are written together or not at all. A process that dies in the
middle has done nothing, and one that was held up finds the next run moved: a tick can be late, but
neither lost nor enqueued twice, however soon its job is done and gone.
"""

from collections.abc import Sequence

import msgspec

from headgate.model.errors import (
    Backpressure,
    DuplicateJob,
    FingerprintQuarantined,
    IdConflict,
    InvalidRequest,
)
from headgate.model.periodic import (
    MAX_EVENTS,
    DueSchedule,
    ScheduleDefinition,
    Tick,
    TickOutcome,
    plan_sweep,
    tick_id,
)
from headgate.queries.schedules import (
    advance_schedule,
    append_events,
    lock_schedule,
    trim_events,
)
from headgate.store.database import Row, Session
from headgate.store.enqueueing import Batch, Written, count, enqueue, guarded_insert, written

INVALID_SPEC = "invalid_spec"


class Fired(msgspec.Struct, frozen=True):
    """What a sweep did for one schedule.

    `events` are those that were recorded, `queues` have new work, and with `unfinished` more ticks
    are due.
    """

    events: list[Tick]
    queues: frozenset[str] = frozenset()
    unfinished: bool = False


def definition_of(row: Row) -> ScheduleDefinition:
    """The definition in a row that has its columns, and maybe others."""
    fields = {name: row[name] for name in ScheduleDefinition.__struct_fields__}
    return ScheduleDefinition(**{**fields, "tags": tuple(fields["tags"])})


async def fire(session: Session, due: DueSchedule) -> Fired:
    """Enqueues what is due and moves the next run.

    A tick that fails is the next run again; those before it are done. When the very first fails,
    nothing is moved. Another process that is at it, or was, leaves nothing to do.
    """
    row = await _lock(session, due)
    if row is None:
        return Fired([])
    definition = definition_of(row)
    sweep = plan_sweep(definition, due.next_run_ms, row["now_ms"])
    if sweep.invalid_spec:
        ticks, queues = [_failed(due.id, due.next_run_ms, INVALID_SPEC)], set[str]()
    else:
        ticks, queues = await _enqueue(session, definition, sweep.ticks)
    failed = not sweep.invalid_spec and ticks[-1].outcome is TickOutcome.FAILED
    events = await record(session, due.id, ticks)
    if not failed or len(ticks) > 1:
        await session.fetch(
            advance_schedule(),
            {
                "schedule_id": due.id,
                "seen_next_run_ms": due.next_run_ms,
                "new_next_run_ms": ticks[-1].tick_ms if failed else sweep.next_run_ms,
                "has_enqueued": any(tick.outcome is TickOutcome.ENQUEUED for tick in ticks),
            },
        )
    return Fired(events, frozenset(queues), sweep.unfinished and not failed)


async def fail(session: Session, due: DueSchedule, reason: str) -> list[Tick]:
    """Records that a schedule could not be taken up, if nobody else has done it meanwhile."""
    if await _lock(session, due) is None:
        return []
    return await record(session, due.id, [_failed(due.id, due.next_run_ms, reason)])


async def _lock(session: Session, due: DueSchedule) -> Row | None:
    """The schedule, locked; None when it is gone, paused, moved on, or in other hands."""
    rows = await session.fetch(lock_schedule(), {"schedule_id": due.id})
    if not rows or rows[0]["paused"] or rows[0]["next_run_ms"] != due.next_run_ms:
        return None
    return rows[0]


async def record(session: Session, schedule_id: str, ticks: Sequence[Tick]) -> list[Tick]:
    """Writes the events of a schedule that is locked, and drops its oldest."""
    kept = ticks[-MAX_EVENTS:]
    rows = await session.fetch(
        append_events(),
        {
            "schedule_id": schedule_id,
            "tick_ms_array": [tick.tick_ms for tick in kept],
            "job_id_array": [tick.job_id for tick in kept],
            "outcome_array": [tick.outcome.value for tick in kept],
            "reason_array": [tick.reason for tick in kept],
        },
    )
    if rows:
        await session.fetch(trim_events(), {"schedule_id": schedule_id})
    return [
        Tick(row["tick_ms"], row["job_id"], TickOutcome(row["outcome"]), row["reason"])
        for row in rows
    ]


def _failed(schedule_id: str, tick_ms: int, reason: str) -> Tick:
    return Tick(tick_ms, tick_id(schedule_id, tick_ms), TickOutcome.FAILED, reason)


async def _enqueue(
    session: Session, definition: ScheduleDefinition, ticks: Sequence[int]
) -> tuple[list[Tick], set[str]]:
    """What became of the ticks, up to the first that failed, and the queues with new work.

    They are enqueued together. When something speaks against them, each half is tried by itself,
    until the one that it speaks against is alone.
    """
    done: list[Tick] = []
    queues: set[str] = set()
    waiting = [ticks]
    while waiting:
        batch = waiting.pop()
        try:
            answer = await _enqueue_batch(session, definition, batch)
        except FingerprintQuarantined:
            # They all have the same content.
            done += [_tick(definition, at, TickOutcome.SKIPPED, "quarantined") for at in batch]
        except InvalidRequest:
            done.append(_failed(definition.id, batch[0], "invalid_request"))
            break
        except (Backpressure, DuplicateJob, IdConflict) as refusal:
            if len(batch) > 1:
                half = len(batch) // 2
                waiting += [batch[half:], batch[:half]]
            elif isinstance(refusal, Backpressure):
                done.append(_failed(definition.id, batch[0], "backpressure"))
                break
            else:
                done.append(_deduplicated(definition, batch[0], refusal))
        else:
            done += [_tick(definition, at, TickOutcome.ENQUEUED, "accepted") for at in batch]
            queues |= answer.queues
    return done, queues


def _tick(definition: ScheduleDefinition, at_ms: int, outcome: TickOutcome, reason: str) -> Tick:
    return Tick(at_ms, tick_id(definition.id, at_ms), outcome, reason)


def _deduplicated(
    definition: ScheduleDefinition, at_ms: int, refusal: DuplicateJob | IdConflict
) -> Tick:
    if isinstance(refusal, IdConflict):
        return _tick(definition, at_ms, TickOutcome.DEDUPLICATED, "id_conflict")
    return Tick(at_ms, refusal.existing_id, TickOutcome.DEDUPLICATED, "unique_key")


async def _enqueue_batch(
    session: Session, definition: ScheduleDefinition, ticks: Sequence[int]
) -> Written:
    batch = Batch.of([definition.tick(tick_ms) for tick_ms in ticks])
    if len(ticks) == 1:
        # A single row is there or not; a batch could be left in halves.
        rows = await session.fetch(*guarded_insert(batch, tolerant=True))
        if count(rows):
            return written(batch, rows)
    conversation = enqueue(batch)
    try:
        step = next(conversation)
        while True:
            step = conversation.send(await session.fetch(*step))
    except StopIteration as end:
        answer: Written = end.value
        return answer
