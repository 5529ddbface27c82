"""The draw: candidates of every open lane, their rank, what the policies leave of them, and the
lock on those that are to start.

The rank within a queue is: priority, then the round (the first job of every partition before the
second of any), then the turn of the lane. Queues are merged by their virtual time. What a policy
refuses is neither locked nor in the way of what comes after it.
"""

from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    FromClause,
    Integer,
    Select,
    Subquery,
    case,
    cast,
    func,
    or_,
    select,
)
from sqlalchemy.types import Double

from headgate.queries.gate.parts import ADDRESS, CAPACITY, next_jobs, still_available
from headgate.queries.gate.walk import SPARE
from headgate.queries.literals import always, number
from headgate.tables import job


def open_lanes(lane: CTE, classes: CTE | None, *guards: ColumnElement[bool]) -> Select[Any]:
    """The lanes that no policy closes, with numbers for what is ranked: comparing those is cheaper
    than comparing keys.

    `share` is how many jobs to look at. Partitions of a level have equal parts, the lanes of a
    partition again, and all of them together twice as many as can be used.
    """
    columns: list[ColumnElement[Any]] = [
        func.row_number().over().label("number"),
        func.dense_rank().over(order_by=(lane.c.position, lane.c.partition_key)).label("tenant"),
    ]
    source: FromClause = lane
    if classes is not None:
        columns += [
            classes.c.number.label("class_number"),
            classes.c.burst,
            (classes.c.scaled // classes.c.window_ms).label("level"),
        ]
        source = lane.outerjoin(classes, classes.c.name == lane.c.rate_class)
    found = select(lane, *columns).select_from(source).where(*guards)
    if classes is not None:
        found = found.where(or_(classes.c.name.is_(None), classes.c.held))
    if "room" in lane.c:
        found = found.where(or_(lane.c.ceiling.is_(None), lane.c.room > number(0)))
    numbered = found.subquery("numbered")
    siblings = cast(
        func.count().over(partition_by=(numbered.c.tenant, numbered.c.priority)), Double
    )
    grouped = select(numbered, siblings.label("siblings")).subquery("grouped")
    partitions = func.sum(number(1) / grouped.c.siblings, type_=Double).over(
        partition_by=(grouped.c.position, grouped.c.priority)
    )
    part = cast(func.ceil(CAPACITY / (partitions * grouped.c.siblings)), Integer)
    share = func.least(CAPACITY + number(SPARE), number(2) * part)
    return select(grouped, share.label("share"))


def heads(lane: CTE) -> Select[Any]:
    """The first job of each lane: its `ulid`, `scheduled_at_ms`, and its weight as `tokens`."""
    waiting = job.alias("waiting")
    first = (
        next_jobs(waiting, lane.c, waiting.c.ulid, waiting.c.weight, waiting.c.scheduled_at_ms)
        .limit(number(1))
        .correlate(lane)
        .lateral("first")
    )
    return select(
        lane, first.c.ulid, first.c.weight.label("tokens"), first.c.scheduled_at_ms
    ).join_from(lane, first, always())


def candidates(lane: CTE) -> Select[Any]:
    """The next jobs of each lane, unlocked, and not more than its policies can let pass.

    A job that costs more than its class holds now makes way for those behind it.
    """
    waiting = job.alias("waiting")
    next_ = next_jobs(
        waiting,
        lane.c,
        ADDRESS.label("address"),
        waiting.c.id,
        waiting.c.scheduled_at_ms,
        waiting.c.weight,
    )
    bounds = [lane.c[name] for name in ("share", "room", "level") if name in lane.c]
    if "level" in lane.c:
        cost = func.least(waiting.c.weight, lane.c.burst)
        next_ = next_.where(or_(lane.c.level.is_(None), cost <= lane.c.level))
    drawn = next_.limit(func.least(*bounds)).correlate(lane).lateral("drawn")
    carried = (
        lane.c[name]
        for name in (
            *("position", "virtual_time", "weight", "priority", "turn", "number", "tenant"),
            *("share", "room", "class_number", "level", "displaces", "vacant"),
        )
        if name in lane.c
    )
    found = select(*carried, drawn.c.address, drawn.c.id, drawn.c.scheduled_at_ms)
    if "level" in lane.c:
        unlimited = (lane.c.level.is_(None), number(0))
        found = found.add_columns(
            # No more than a weight; whole numbers of this size are added up without decimals.
            cast(case(unlimited, else_=func.least(drawn.c.weight, lane.c.burst)), Integer).label(
                "cost"
            )
        )
    return found.select_from(lane.join(drawn, always()))


def cut_levels(candidate: CTE) -> Select[Any]:
    """The highest level of each queue in which a lane has more jobs than were looked at.

    Nothing below it may start in this call, or a job of a lower priority would overtake.
    """
    policies = [candidate.c[name] for name in ("room", "level") if name in candidate.c]
    cut = (
        select(candidate.c.position, candidate.c.priority)
        .group_by(
            candidate.c.number,
            candidate.c.position,
            candidate.c.priority,
            candidate.c.share,
            *policies,
        )
        .having(
            func.count() >= candidate.c.share,
            *(or_(bound.is_(None), candidate.c.share < bound) for bound in policies),
        )
        .subquery("cut")
    )
    return select(cut.c.position, func.max(cut.c.priority).label("priority")).group_by(
        cut.c.position
    )


def ranked(candidate: CTE, cut: CTE) -> Select[Any]:
    """The candidates that every policy lets pass, each with its `finish` in the race of queues."""
    lowest = select(cut.c.priority).where(cut.c.position == candidate.c.position).scalar_subquery()
    rounds = select(
        candidate,
        _rank(
            [candidate.c.tenant, candidate.c.priority],
            [candidate.c.scheduled_at_ms, candidate.c.id],
        ).label("round"),
    ).where(candidate.c.priority >= func.coalesce(lowest, candidate.c.priority))
    turns = rounds.subquery("turns")
    placed = select(
        turns,
        _rank([turns.c.position], [turns.c.priority.desc(), turns.c.round, turns.c.turn]).label(
            "place"
        ),
    ).subquery("placed")
    if "level" in candidate.c:
        placed = _affordable(placed)
    if "room" in candidate.c:
        placed = _within_room(placed)
    place = _rank([placed.c.position], [placed.c.place])
    carried = (
        placed.c[name]
        for name in ("address", "position", "number", "tenant", "displaces", "vacant")
        if name in placed.c
    )
    return select(*carried, _finish(placed, place).label("finish"))


def _affordable(placed: Subquery) -> Subquery:
    """Without those that the tokens of their class do not reach, in the order of the race.

    Tokens come before room, or a job without a token could take the only place of its partition.
    """
    total = func.sum(placed.c.cost).over(
        partition_by=placed.c.class_number,
        order_by=(_finish(placed, placed.c.place), placed.c.position),
        rows=(None, 0),
    )
    summed = select(placed, total.label("total")).subquery("summed")
    return (
        select(summed)
        .where(or_(summed.c.level.is_(None), summed.c.total <= summed.c.level))
        .subquery("affordable")
    )


def _within_room(placed: Subquery) -> Subquery:
    """Without those that find no room in their partition."""
    seat = _rank([placed.c.tenant], [placed.c.place]).label("seat")
    seated = select(placed, seat).subquery("seated")
    return (
        select(seated)
        .where(or_(seated.c.room.is_(None), seated.c.seat <= seated.c.room))
        .subquery("within_room")
    )


def lock_first(candidate: FromClause) -> Select[Any]:
    """Locks the first `capacity` candidates that nobody else has taken meanwhile, and returns them
    with their columns.

    The join is lazy, so nothing behind the last one is touched.
    """
    order = (
        select(candidate)
        .order_by(candidate.c.finish, candidate.c.position)
        .offset(number(0))
        .subquery("in_order")
    )
    waiting = job.alias("waiting")
    locked = (
        select(ADDRESS.label("address"))
        .select_from(waiting)
        .where(order.c.address == ADDRESS, still_available(waiting))
        .with_for_update(skip_locked=True, of=waiting)
        .correlate(order)
        .lateral("locked")
    )
    others = (column for column in order.c if column.name != "address")
    return (
        select(locked.c.address, *others).select_from(order.join(locked, always())).limit(CAPACITY)
    )


def _rank(
    partition: list[ColumnElement[Any]], order: list[ColumnElement[Any]]
) -> ColumnElement[int]:
    return func.row_number().over(partition_by=partition, order_by=order)


def _finish(placed: FromClause, place: ColumnElement[int]) -> ColumnElement[float]:
    return placed.c.virtual_time + cast(place, Double) / placed.c.weight
