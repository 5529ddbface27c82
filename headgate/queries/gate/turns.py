"""The loaded case of one queue without policies, whose highest level is known: what `fast` does,
with less to find out.
"""

from functools import cache
from types import SimpleNamespace
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Integer,
    Select,
    Text,
    Update,
    bindparam,
    exists,
    func,
    select,
    union_all,
)

from headgate.queries.gate.fast import STAND_BY, allotment, draw_in_turn
from headgate.queries.gate.parts import CAPACITY, WORKER, claim, clock, read
from headgate.queries.gate.walk import next_level, ring
from headgate.queries.literals import never, number, word
from headgate.queries.shapes import materialized
from headgate.tables import active_partition, concurrency_limit, queue_state

_LEVEL: Final = SimpleNamespace(
    queue=bindparam("queue", type_=Text),
    priority=bindparam("level_priority", type_=Integer),
    cursor_partition_key=bindparam("cursor_partition_key", type_=Text),
    cursor_rate_class=bindparam("cursor_rate_class", type_=Text),
)


@cache
def turns() -> Update:
    """Claims up to `capacity` jobs of the level `level_priority` of `queue`.

    Claims nothing where `fast` would not, unless that level is the highest, nor when jobs that are
    pinned to the worker compete with it.
    """
    lane = materialized(_lanes(), "lane")
    known = {"queue": _LEVEL.queue, "sticky_worker": word(""), "priority": _LEVEL.priority}
    chosen = draw_in_turn(lane, [lane.c.place], *_guards(), known=known)
    return claim(chosen.scalar_subquery(), read(clock(), "now_ms"), number(0))


def _lanes() -> Select[Any]:
    wanted = CAPACITY + number(STAND_BY)
    arms = (ring(_LEVEL, word(""), wanted, behind=behind) for behind in (True, False))
    # In the order of the arms, which no plan of a statement that writes changes.
    entry = union_all(*arms).limit(wanted).subquery("entry")
    same = func.lag(entry.c.partition_key).over() == entry.c.partition_key
    place, found = func.row_number().over(), func.count().over()
    lane = select(
        entry,
        place.label("place"),
        found.label("found"),
        func.coalesce(same, never()).label("shared"),
    ).subquery("found")
    return select(lane, allotment(CAPACITY, lane).label("allotment"))


def _guards() -> list[ColumnElement[bool]]:
    """No pause, no ceiling, and no level that comes first."""
    one = number(1)
    pinned = active_partition.alias()
    competing = select(one).where(
        pinned.c.queue == _LEVEL.queue,
        pinned.c.sticky_worker == WORKER,
        pinned.c.priority >= _LEVEL.priority,
    )
    paused = select(one).where(queue_state.c.queue == _LEVEL.queue, queue_state.c.paused)
    limited = select(one).where(concurrency_limit.c.queue == _LEVEL.queue)
    highest = next_level(_LEVEL.queue, word(""), None).scalar_subquery()
    return [~exists(paused), ~exists(limited), highest == _LEVEL.priority, ~exists(competing)]
