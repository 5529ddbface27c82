"""The walk over the registry: polled queues, their priority levels, the lanes of each level.

Within a level lanes come in the order of their partition keys, from behind the cursor to the end
and then from the start up to the cursor, so that each call goes on where the last one stopped.
"""

from typing import Any, Final

from sqlalchemy import (
    CTE,
    ColumnElement,
    FromClause,
    Integer,
    Select,
    TableValuedAlias,
    Text,
    bindparam,
    cast,
    column,
    func,
    select,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.types import Double, TypeEngine

from headgate.queries.gate.parts import QUEUES, materialized
from headgate.queries.literals import always, number, word
from headgate.tables import active_partition, queue_state

LEVELS: Final = 16
"""How many priority levels of a queue one statement looks at; the driver goes on below them."""

RING: Final = 4096
"""How many lanes in a row may be blocked before a call gives up the level; the next call goes on
behind them."""

SPARE: Final = 4
"""How many lanes more than jobs are taken, as some will turn out to be drained or busy."""

ANY_PRIORITY: Final = 2**31
"""Above every priority."""


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


def asked_queues() -> TableValuedAlias:
    """The queues of the call, each with the finish tag of the last job that was taken from it."""
    return _rows("asked", queue=(QUEUES, Text()), finish_tag=_array("finish_tags", Double()))


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
        partition_key=_array("cursor_keys", Text()),
    )
    return materialized(select(known), "cursor")


def cursor_of(
    cursor: CTE, queue: ColumnElement[str], priority: ColumnElement[int]
) -> ColumnElement[str]:
    """The key behind which a level goes on; before all keys for a level not served yet."""
    known = (
        select(cursor.c.partition_key)
        .where(cursor.c.queue == queue, cursor.c.priority == priority)
        .scalar_subquery()
    )
    return func.coalesce(known, word(""))


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
    """The lanes of a level (queue, priority, cursor) `behind` its cursor, or up to it."""
    entry = active_partition.alias()
    side = (
        entry.c.partition_key > level.c.cursor
        if behind
        else entry.c.partition_key <= level.c.cursor
    )
    return (
        select(
            entry.c.queue,
            entry.c.sticky_worker,
            entry.c.priority,
            entry.c.partition_key,
            entry.c.rate_class,
            number(0 if behind else 1).label("segment"),
        )
        .where(
            entry.c.queue == level.c.queue,
            entry.c.sticky_worker == sticky_worker,
            entry.c.priority == level.c.priority,
            side,
        )
        .order_by(entry.c.partition_key, entry.c.rate_class)
        .limit(limit)
    )


def ring_order(lane: FromClause) -> list[ColumnElement[Any]]:
    return [lane.c.segment, lane.c.partition_key, lane.c.rate_class, lane.c.sticky_worker]
