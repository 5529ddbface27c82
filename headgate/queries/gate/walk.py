"""The walk over the registry: polled queues, their priority levels, the lanes of each level.

Within a level lanes come in the order of their partition keys, from behind the cursor to the end
and then from the start up to the cursor, so that each call goes on where the last one stopped.
"""

from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    FromClause,
    Integer,
    Select,
    Subquery,
    TableValuedAlias,
    Text,
    and_,
    bindparam,
    cast,
    column,
    func,
    select,
    tuple_,
    union_all,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.sql.selectable import LateralFromClause
from sqlalchemy.types import Double, TypeEngine

from headgate.queries.gate.parts import CAPACITY, QUEUES, WORKER, probe
from headgate.queries.lanes import LANE
from headgate.queries.literals import always, number, word
from headgate.queries.shapes import materialized
from headgate.tables import active_partition, concurrency_limit, queue_state

LEVELS: Final = 16
"""How many priority levels of a queue one statement looks at; the driver goes on below them."""

RING: Final = 4096
"""How many lanes in a row may be blocked before a call gives up the level; the next call goes on
behind them."""

SPARE: Final = 4
"""How many lanes more than jobs are taken, as some will turn out to be drained or busy."""

ANY_PRIORITY: Final = 2**31
"""Above every priority."""

LaneCondition = Callable[[FromClause, FromClause], ColumnElement[bool]]
"""What must hold for a level and a lane of it."""


def _rows(name: str, **fields: tuple[ColumnElement[Any], TypeEngine[Any]]) -> TableValuedAlias:
    return (
        func.unnest(*(array for array, _ in fields.values()))
        .table_valued(
            *(column(field, kind) for field, (_, kind) in fields.items()),
            with_ordinality="position",
        )
        .render_derived(name=name)
    )


def _array(name: str, kind: TypeEngine[Any]) -> tuple[ColumnElement[Any], TypeEngine[Any]]:
    return bindparam(name, type_=ARRAY(kind)), kind


def unpaused_queues(*, bounded: bool = False) -> Subquery:
    """The queues of the call that are not paused: (queue, position, weight, virtual_time).

    `virtual_time` says where a queue stands in the race for capacity, in which a job costs the
    inverse of the weight of its queue. One that had no work meanwhile starts one job behind the
    frontier, the furthest that any queue has got to, so it gets its share from now on and nothing
    for the past. If `bounded`, a priority `below` which to look comes along.
    """
    bounds = {"below": _array("below_priorities", BigInteger())} if bounded else {}
    asked = _rows(
        "asked",
        queue=(QUEUES, Text()),
        finish_tag=_array("finish_tags", Double()),
        **bounds,
    )
    state = probe(
        select(queue_state.c.paused, queue_state.c.weight).where(
            queue_state.c.queue == asked.c.queue
        ),
        "state",
    )
    weight = cast(func.coalesce(state.c.weight, number(1)), Double)
    behind: ColumnElement[float] = bindparam("frontier", type_=Double) - number(1) / weight
    return (
        select(
            *(column for column in asked.c if column.name != "finish_tag"),
            weight.label("weight"),
            func.greatest(asked.c.finish_tag, behind, type_=Double).label("virtual_time"),
        )
        .select_from(asked.outerjoin(state, always()))
        .where(state.c.paused.is_not(always()))
        .subquery("unpaused")
    )


def cursors() -> CTE:
    """Where the rotation stands, for each (queue, priority) that this process has served."""
    known = _rows(
        "known",
        queue=_array("cursor_queues", Text()),
        priority=_array("cursor_priorities", Integer()),
        partition_key=_array("cursor_partition_keys", Text()),
        rate_class=_array("cursor_rate_classes", Text()),
    )
    return materialized(select(known), "cursor")


def with_cursor(
    level: Select[Any], *, queue: ColumnElement[str], priority: ColumnElement[int]
) -> Select[Any]:
    """A level with its cursor, which is before all lanes for one that was not served yet."""
    cursor = cursors()
    return level.outerjoin(
        cursor, and_(cursor.c.queue == queue, cursor.c.priority == priority)
    ).add_columns(
        func.coalesce(cursor.c.partition_key, word("")).label("cursor_partition_key"),
        func.coalesce(cursor.c.rate_class, word("")).label("cursor_rate_class"),
    )


def next_level(
    queue: ColumnElement[str], sticky_worker: ColumnElement[str], below: ColumnElement[int] | None
) -> Select[Any]:
    """The highest priority below another among the lanes of a queue: one probe."""
    entry = active_partition.alias()
    found = (
        select(entry.c.priority)
        .where(entry.c.queue == queue, entry.c.sticky_worker == sticky_worker)
        .order_by(entry.c.priority.desc())
        .limit(number(1))
    )
    return found if below is None else found.where(entry.c.priority < below)


def ring(
    level: Any, sticky_worker: ColumnElement[str], limit: ColumnElement[int], *, behind: bool
) -> Select[Any]:
    """The lanes of a level, given by its columns, `behind` its cursor or up to it."""
    entry = active_partition.alias()
    place = tuple_(entry.c.partition_key, entry.c.rate_class)
    cursor = tuple_(level.cursor_partition_key, level.cursor_rate_class)
    return (
        select(
            *(entry.c[name] for name in LANE),
            number(0 if behind else 1).label("segment"),
        )
        .where(
            entry.c.queue == level.queue,
            entry.c.sticky_worker == sticky_worker,
            entry.c.priority == level.priority,
            place > cursor if behind else place <= cursor,
        )
        .order_by(entry.c.partition_key, entry.c.rate_class)
        .limit(limit)
    )


def end_of_ring(level: CTE, *, behind: bool) -> Select[Any]:
    """The last lane of a side that is looked at, if the side has so many."""
    return (
        ring(level.c, level.c.sticky_worker, number(1), behind=behind)
        .offset(number(RING - 1))
        .correlate(level)
    )


def walk_end(level: CTE) -> LateralFromClause:
    """The lane at which the walk of a level ended before its end."""
    sides = (end_of_ring(level, behind=behind) for behind in (True, False))
    return union_all(*sides).limit(number(1)).lateral("walk_end")


def ring_order(lane: FromClause) -> list[ColumnElement[Any]]:
    return [lane.c.segment, lane.c.partition_key, lane.c.rate_class, lane.c.sticky_worker]


def polled(**limits: ColumnElement[Any]) -> Select[Any]:
    """The queues of the call, and what is named of the ceiling on their partitions."""
    queue = unpaused_queues(bounded=True)
    found = select(queue)
    for name, told in limits.items():
        limit = select(told).where(concurrency_limit.c.queue == queue.c.queue)
        found = found.add_columns(limit.scalar_subquery().label(name))
    return found


def levels(queue: CTE) -> Select[Any]:
    """The levels of each queue that have lanes for this worker, highest first, with their cursors.

    Pinned and unpinned lanes are listed apart, so that neither hides the other.
    """
    pools = union_all(
        select(cast(word(""), Text).label("sticky_worker")), select(WORKER.label("sticky_worker"))
    ).subquery("pool")
    first = next_level(queue.c.queue, pools.c.sticky_worker, queue.c.below).lateral("first")
    level = select(
        queue.c.queue, pools.c.sticky_worker, first.c.priority, number(1).label("depth")
    ).select_from(queue.join(pools, always()).join(first, always()))
    found = level.cte("found", recursive=True)
    lower = next_level(found.c.queue, found.c.sticky_worker, found.c.priority).lateral("lower")
    found = found.union_all(
        select(found.c.queue, found.c.sticky_worker, lower.c.priority, found.c.depth + number(1))
        .select_from(found.join(lower, always()))
        .where(found.c.depth < number(LEVELS))
    )
    of_queue = select(queue, found.c.sticky_worker, found.c.priority, found.c.depth).select_from(
        found.join(queue, queue.c.queue == found.c.queue)
    )
    return with_cursor(of_queue, queue=found.c.queue, priority=found.c.priority)


def lanes(level: CTE, *is_open: LaneCondition) -> Select[Any]:
    """The next lanes of each level that all conditions let pass, with their `place` in the level
    and their `turn` in the queue.

    What is blocked costs a look and none of the places. After `RING` lanes the walk of a level
    ends; it does not begin again at the start of the ring then, or those behind would never be
    reached.
    """
    wanted = CAPACITY + number(SPARE)
    arms = []
    for behind in (True, False):
        if not is_open:
            arms.append(
                ring(level.c, level.c.sticky_worker, wanted, behind=behind).correlate(level)
            )
            continue
        entry = (
            ring(level.c, level.c.sticky_worker, number(RING), behind=behind)
            .correlate(level)
            .lateral("entry")
        )
        conditions = [condition(level, entry) for condition in is_open]
        if not behind:
            cut = end_of_ring(level, behind=True).with_only_columns(number(1))
            conditions.append(cut.scalar_subquery().is_(None))
        arms.append(
            select(entry)
            .where(*conditions)
            .order_by(entry.c.partition_key, entry.c.rate_class)
            .limit(wanted)
            .correlate(level)
        )
    entry = union_all(*arms).limit(wanted).lateral("entry")
    lane = select(entry, func.row_number().over().label("place")).correlate(level).lateral("lane")
    turn = func.row_number().over(
        partition_by=level.c.position, order_by=[lane.c.priority.desc(), *ring_order(lane)]
    )
    of_queue = (
        level.c[name]
        for name in ("position", "weight", "virtual_time", "ceiling", "displaces")
        if name in level.c
    )
    return select(*of_queue, lane, turn.label("turn")).select_from(level.join(lane, always()))
