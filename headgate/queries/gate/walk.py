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
from sqlalchemy.types import Double, TypeEngine

from headgate.queries.gate.parts import CAPACITY, QUEUES, WORKER, materialized
from headgate.queries.lanes import LANE
from headgate.queries.literals import always, number, word
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


def asked_queues(*, bounded: bool = False) -> TableValuedAlias:
    """The queues of the call, each with the finish tag of the last job that was taken from it and,
    if `bounded`, the priority below which to look.
    """
    bounds = {"below": _array("below_priorities", BigInteger())} if bounded else {}
    return _rows(
        "asked",
        queue=(QUEUES, Text()),
        finish_tag=_array("finish_tags", Double()),
        **bounds,
    )


def weight() -> ColumnElement[float]:
    """In the race for capacity a job costs its queue the inverse of its weight."""
    return cast(func.coalesce(queue_state.c.weight, number(1)), Double)


def virtual_time(asked: TableValuedAlias) -> ColumnElement[float]:
    """Where the queue stands in the race.

    A queue that had no work meanwhile starts one job behind the frontier, the furthest that any
    queue has got to, so it gets its share from now on and nothing for the past.
    """
    behind: ColumnElement[float] = bindparam("frontier", type_=Double) - number(1) / weight()
    return func.greatest(asked.c.finish_tag, behind, type_=Double)


def unpaused(asked: TableValuedAlias, *columns: Any) -> Select[Any]:
    return (
        select(*columns)
        .select_from(asked.outerjoin(queue_state, queue_state.c.queue == asked.c.queue))
        .where(queue_state.c.paused.is_not(always()))
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
    level: FromClause, sticky_worker: ColumnElement[str], limit: ColumnElement[int], *, behind: bool
) -> Select[Any]:
    """The lanes of a level `behind` its cursor, or up to it."""
    entry = active_partition.alias()
    place = tuple_(entry.c.partition_key, entry.c.rate_class)
    cursor = tuple_(level.c.cursor_partition_key, level.c.cursor_rate_class)
    return (
        select(
            *(entry.c[name] for name in LANE),
            number(0 if behind else 1).label("segment"),
        )
        .where(
            entry.c.queue == level.c.queue,
            entry.c.sticky_worker == sticky_worker,
            entry.c.priority == level.c.priority,
            place > cursor if behind else place <= cursor,
        )
        .order_by(entry.c.partition_key, entry.c.rate_class)
        .limit(limit)
    )


def ring_order(lane: FromClause) -> list[ColumnElement[Any]]:
    return [lane.c.segment, lane.c.partition_key, lane.c.rate_class, lane.c.sticky_worker]


def polled(*, ceilings: bool) -> Select[Any]:
    """The unpaused queues of the call."""
    asked = asked_queues(bounded=True)
    found = unpaused(
        asked,
        asked.c.queue,
        asked.c.position,
        asked.c.below,
        weight().label("weight"),
        virtual_time(asked).label("virtual_time"),
    )
    if not ceilings:
        return found
    ceiling = (
        select(concurrency_limit.c.max_concurrent)
        .where(concurrency_limit.c.queue == asked.c.queue)
        .scalar_subquery()
    )
    return found.add_columns(ceiling.label("ceiling"))


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

    What is blocked costs a look and none of the places; after `RING` lanes the walk of a level
    ends.
    """
    wanted = CAPACITY + number(SPARE)
    arms = []
    for behind in (True, False):
        if not is_open:
            arms.append(ring(level, level.c.sticky_worker, wanted, behind=behind).correlate(level))
            continue
        entry = (
            ring(level, level.c.sticky_worker, number(RING), behind=behind)
            .correlate(level)
            .lateral("entry")
        )
        arms.append(
            select(entry)
            .where(*(condition(level, entry) for condition in is_open))
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
        for name in ("position", "weight", "virtual_time", "ceiling")
        if name in level.c
    )
    return select(*of_queue, lane, turn.label("turn")).select_from(level.join(lane, always()))
