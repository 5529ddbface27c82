"""What the complete gate tells its driver beside the claims: why it came short, how to go on."""

from typing import Any, NamedTuple

from sqlalchemy import (
    CTE,
    ColumnElement,
    CompoundSelect,
    FromClause,
    Select,
    case,
    func,
    null,
    or_,
    select,
    union_all,
)
from sqlalchemy.dialects.postgresql import JSONB

from headgate.queries.gate.parts import CAPACITY, first_job
from headgate.queries.gate.walk import LEVELS, SPARE, walk_end
from headgate.queries.lanes import LANE
from headgate.queries.literals import always, number, word


class Steps(NamedTuple):
    """The steps of one statement, as far as the report looks into them."""

    queue: CTE
    level: CTE
    lane: CTE
    open_lane: CTE
    candidate: CTE
    cut: CTE
    chosen: CTE
    classes: CTE | None
    roomy: CTE | None


def report(
    steps: Steps, *, ceilings: ColumnElement[bool], buckets: ColumnElement[bool], brief: bool
) -> ColumnElement[Any]:
    """A jsonb object. A call that used all of its capacity says nothing but:

    - `weights`: of the queues, as they are now
    - `ceilings`: what those on the queues do with what finds no room, if there are any
    - `buckets`: whether there is one for what was walked
    - `stops`: for each level with more lanes than were looked at, the last that was

    One that came short also says, unless it is to be `brief`:

    - `busy_classes`, `busy_partitions`: policy rows that others held; their lanes sat out
    - `missing`: partitions under a ceiling without the row to lock
    - `drained`: lanes that have no available job left
    - `more`: candidates were left over, or not all there are were looked at
    - `vain`: for each level of which nothing was drawn and not all was walked, the last lane walked
    - `deeper`: for each queue with more levels than were looked at, the lowest that was
    """
    chosen = select(func.count()).select_from(steps.chosen).scalar_subquery()
    weights = select(func.jsonb_object_agg(steps.queue.c.queue, steps.queue.c.weight))
    always_said = _object(
        weights=weights.scalar_subquery(),
        ceilings=ceilings,
        buckets=buckets,
        stops=_stops(steps.lane),
    )
    if brief:
        return always_said
    said_when_short = _object(
        busy_classes=_busy_classes(steps.classes),
        busy_partitions=_partitions(steps.roomy, "busy"),
        missing=_partitions(steps.roomy, "missing"),
        drained=_drained(steps.open_lane, steps.candidate),
        more=or_(_count(steps.cut) > number(0), _count(steps.candidate) > chosen),
        vain=_vain(steps),
        deeper=_deeper(steps.level),
    )
    return case((chosen < CAPACITY, always_said.op("||")(said_when_short)), else_=always_said)


def _object(**values: Any) -> ColumnElement[Any]:
    pairs = (part for name, value in values.items() for part in (word(name), value))
    return func.jsonb_build_object(*pairs, type_=JSONB)


def _list(entries: Select[Any] | CompoundSelect[Any]) -> ColumnElement[Any]:
    rows = entries.subquery()
    columns = list(rows.c)
    entry = columns[0] if len(columns) == 1 else func.jsonb_build_array(*columns)
    return select(func.jsonb_agg(entry)).scalar_subquery()


def _count(step: CTE) -> ColumnElement[int]:
    return select(func.count()).select_from(step).scalar_subquery()


def _busy_classes(classes: CTE | None) -> ColumnElement[Any]:
    if classes is None:
        return null()
    return _list(select(classes.c.name).where(classes.c.held.is_(None)))


def _partitions(roomy: CTE | None, mark: str) -> ColumnElement[Any]:
    if roomy is None:
        return null()
    return _list(select(roomy.c.queue, roomy.c.partition_key).where(roomy.c[mark]).distinct())


def _drained(open_lane: CTE, candidate: CTE) -> ColumnElement[Any]:
    # NOT IN, as it is the one form that is hashed with the settings of the gate.
    return _list(
        select(*(open_lane.c[name] for name in LANE)).where(
            open_lane.c.number.not_in(select(candidate.c.number)),
            first_job(open_lane.c).scalar_subquery().is_(None),
        )
    )


def _stops(lane: CTE) -> ColumnElement[Any]:
    return _list(_place(lane).where(_is_last(lane)))


def _vain(steps: Steps) -> ColumnElement[Any]:
    """A level that gave something needs no such push: its cursor follows those that are served.
    To push it as well would pass over those whose turn is next.
    """
    level, lane, candidate = steps.level, steps.lane, steps.candidate
    filtered = steps.classes is not None or steps.roomy is not None

    def unfruitful(step: CTE) -> ColumnElement[bool]:
        drawn = (
            select(number(1))
            .where(candidate.c.position == step.c.position, candidate.c.priority == step.c.priority)
            .limit(number(1))
            .scalar_subquery()
        )
        return drawn.is_(None)

    found = _place(lane).where(_is_last(lane), unfruitful(lane))
    if not filtered:
        return _list(found)
    blocked = walk_end(level)
    passed = _place(blocked).select_from(level.join(blocked, always())).where(unfruitful(level))
    return _list(union_all(found, passed))


def _is_last(lane: CTE) -> ColumnElement[bool]:
    return lane.c.place == CAPACITY + number(SPARE)


def _place(lane: FromClause) -> Select[Any]:
    return select(lane.c.queue, lane.c.priority, lane.c.partition_key, lane.c.rate_class)


def _deeper(level: CTE) -> ColumnElement[Any]:
    lowest = (
        select(level.c.queue, func.max(level.c.priority).label("priority"))
        .where(level.c.depth == number(LEVELS))
        .group_by(level.c.queue)
        .subquery("lowest")
    )
    return select(func.jsonb_object_agg(lowest.c.queue, lowest.c.priority)).scalar_subquery()
