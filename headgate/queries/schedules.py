"""Schedules and what became of their ticks.

A schedule is locked from the look at it until its next run is written, so that two processes never
take up the same tick; whoever finds it locked leaves it alone.
"""

from functools import cache
from typing import Any, Final

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    ColumnElement,
    Delete,
    Executable,
    Select,
    Text,
    any_,
    bindparam,
    case,
    column,
    delete,
    false,
    func,
    select,
    true,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from headgate.model.periodic import MAX_EVENTS, Schedule, ScheduleDefinition, TickOutcome
from headgate.queries.clock import instant, now_ms
from headgate.queries.literals import number, word
from headgate.tables import schedule, schedule_event

_DEFINED: Final = ScheduleDefinition.__struct_fields__
_SHOWN: Final = Schedule.__struct_fields__


def _id() -> ColumnElement[str]:
    return bindparam("schedule_id", type_=Text)


@cache
def read_clock() -> Select[Any]:
    """The database's now, to anchor schedules at."""
    return select(instant().label("now_ms"))


@cache
def put_schedule(*, declared: bool) -> Executable:
    """Writes the definition of the binds `new_{field}`.

    An unchanged spec keeps its next run, another one begins at `new_next_run_ms`. One that an
    application declares stays paused if it is, and is not written at all when nothing changes.
    """
    values: dict[str, Any] = {
        name: bindparam(f"new_{name}", type_=schedule.c[name].type)
        for name in (*_DEFINED, "next_run_ms", "declared_by")
    }
    writing = insert(schedule).values(**values, updated_at_ms=instant())
    changes: dict[str, Any] = {
        name: writing.excluded[name] for name in values if name not in ("id", "next_run_ms")
    }
    if declared:
        del changes["paused"]
    unchanged = schedule.c.spec == writing.excluded.spec
    return writing.on_conflict_do_update(
        index_elements=[schedule.c.id],
        set_={
            **changes,
            "next_run_ms": case(
                (unchanged, schedule.c.next_run_ms), else_=writing.excluded.next_run_ms
            ),
            "updated_at_ms": writing.excluded.updated_at_ms,
        },
        where=tuple_(*(schedule.c[name] for name in changes)).is_distinct_from(
            tuple_(*changes.values())
        )
        if declared
        else None,
    ).returning(schedule.c.id)


@cache
def one_schedule(*, payload: bool = False) -> Select[Any]:
    """A schedule as it is shown."""
    shown = (*_SHOWN, "payload") if payload else _SHOWN
    return select(*(schedule.c[name] for name in shown)).where(schedule.c.id == _id())


@cache
def set_schedule_paused(*, paused: bool) -> Executable:
    """Stops the ticks of a schedule or lets them go on; no row when there is none."""
    return (
        update(schedule)
        .where(schedule.c.id == _id())
        .values(paused=true() if paused else false(), updated_at_ms=instant())
        .returning(schedule.c.id)
    )


@cache
def one_definition() -> Select[Any]:
    """A schedule as it was defined."""
    return select(*(schedule.c[name] for name in _DEFINED)).where(schedule.c.id == _id())


@cache
def page_of_schedules() -> Select[Any]:
    """A page of schedules as they are shown, by id."""
    return (
        select(*(schedule.c[name] for name in _SHOWN))
        .order_by(schedule.c.id)
        .limit(bindparam("page_size", type_=BigInteger))
        .offset(bindparam("page_offset", type_=BigInteger))
    )


@cache
def delete_schedule() -> Executable:
    """Removes a schedule; its events stay."""
    return delete(schedule).where(schedule.c.id == _id()).returning(schedule.c.id)


@cache
def prune_schedules() -> Executable:
    """Removes what the application declared and does not declare any more."""
    return (
        delete(schedule)
        .where(
            schedule.c.declared_by == bindparam("owner", type_=Text),
            schedule.c.id.not_in(
                select(func.unnest(bindparam("kept_ids", type_=ARRAY(Text))).label("id"))
            ),
        )
        .returning(schedule.c.id)
    )


@cache
def orphan_events() -> Executable:
    """Marks the events of the schedules `gone_ids`, which are deleted, in a later statement: those
    of a tick that was taken up meanwhile are among them.
    """
    return (
        update(schedule_event)
        .where(
            schedule_event.c.schedule_id == any_(bindparam("gone_ids", type_=ARRAY(Text))),
            schedule_event.c.orphaned_at_ms.is_(None),
        )
        .values(orphaned_at_ms=instant())
    )


@cache
def due_schedules() -> Select[Any]:
    """The schedules that are due, by next run and id, after the one of the cursor."""
    return (
        select(schedule.c.next_run_ms, schedule.c.id)
        .where(
            ~schedule.c.paused,
            schedule.c.next_run_ms <= now_ms(),
            tuple_(schedule.c.next_run_ms, schedule.c.id)
            > tuple_(
                bindparam("after_next_run_ms", type_=BigInteger),
                bindparam("after_id", type_=Text),
            ),
        )
        .order_by(schedule.c.next_run_ms, schedule.c.id)
        .limit(bindparam("batch_size", type_=BigInteger))
    )


@cache
def lock_schedule() -> Select[Any]:
    """A schedule's definition and next run, locked, and the database's now.

    By its id alone: thousands may be due at one instant, and the index of what is due would read
    them all for each.
    """
    return (
        select(
            *(schedule.c[name] for name in _DEFINED),
            schedule.c.next_run_ms,
            instant().label("now_ms"),
        )
        .where(schedule.c.id == _id())
        .with_for_update(skip_locked=True)
    )


@cache
def advance_schedule() -> Executable:
    """Moves the next run, from the one that was seen; `has_enqueued` notes the time."""
    return (
        update(schedule)
        .where(
            schedule.c.id == _id(),
            schedule.c.next_run_ms == bindparam("seen_next_run_ms", type_=BigInteger),
        )
        .values(
            next_run_ms=bindparam("new_next_run_ms", type_=BigInteger),
            last_enqueued_ms=case(
                (bindparam("has_enqueued", type_=Boolean), instant()),
                else_=schedule.c.last_enqueued_ms,
            ),
        )
        .returning(schedule.c.id)
    )


@cache
def append_events() -> Executable:
    """Records what became of ticks, in the order of the arrays, for a schedule that is locked.

    A failure that is the newest event already is not recorded again: a queue that stays full would
    push out everything else. Rows come back for what was recorded.
    """
    arrays = {"tick_ms": BigInteger, "job_id": Text, "outcome": Text, "reason": Text}
    given = (
        func.unnest(
            *(bindparam(f"{name}_array", type_=ARRAY(kind)) for name, kind in arrays.items())
        )
        .table_valued(
            *(column(name, kind) for name, kind in arrays.items()), with_ordinality="position"
        )
        .render_derived(name="given")
    )
    newest = (
        select(schedule_event)
        .where(schedule_event.c.schedule_id == _id())
        .order_by(schedule_event.c.id.desc())
        .limit(number(1))
        .subquery("newest")
    )
    repeated = (
        select(number(1))
        .select_from(newest)
        .where(
            given.c.outcome == word(TickOutcome.FAILED.value),
            *(newest.c[name] == given.c[name] for name in ("tick_ms", "outcome", "reason")),
        )
        .exists()
    )
    rows = (
        select(_id(), *(given.c[name] for name in arrays), instant())
        .where(~repeated)
        .order_by(given.c.position)
    )
    return (
        insert(schedule_event)
        .from_select(["schedule_id", *arrays, "recorded_at_ms"], rows)
        .returning(*(schedule_event.c[name] for name in arrays))
    )


@cache
def trim_events() -> Delete:
    """Keeps the newest events of a schedule that is locked."""
    beyond = (
        select(schedule_event.c.id)
        .where(schedule_event.c.schedule_id == _id())
        .order_by(schedule_event.c.id.desc())
        .offset(number(MAX_EVENTS))
        .limit(number(1))
        .scalar_subquery()
    )
    return delete(schedule_event).where(
        schedule_event.c.schedule_id == _id(), schedule_event.c.id <= beyond
    )


@cache
def page_of_events() -> Select[Any]:
    """The events of a schedule, newest first, before the cursor. It need not exist any more."""
    return (
        select(
            schedule_event.c.id.label("event_id"),
            schedule_event.c.schedule_id,
            schedule_event.c.tick_ms,
            schedule_event.c.job_id,
            schedule_event.c.outcome,
            schedule_event.c.reason,
            schedule_event.c.recorded_at_ms,
        )
        .where(
            schedule_event.c.schedule_id == _id(),
            schedule_event.c.id < bindparam("before_event_id", type_=BigInteger),
        )
        .order_by(schedule_event.c.id.desc())
        .limit(bindparam("page_size", type_=BigInteger))
    )
