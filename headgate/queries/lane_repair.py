"""Lanes and jobs compared: lanes that wait unregistered, and entries without a job.

Both are walked from entry to entry along an index, each step one probe, so a pass costs what it
looks at in lanes, however many jobs wait in them.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    CompoundSelect,
    Executable,
    FromClause,
    Integer,
    Select,
    bindparam,
    cast,
    func,
    null,
    select,
    union_all,
)

from headgate.queries.gate.parts import first_job
from headgate.queries.lanes import LANE, is_lane, register
from headgate.queries.literals import always, number
from headgate.queries.states import is_state
from headgate.tables import active_partition, job, lane_hash

_HASH: Final = "hash"


@cache
def register_forgotten() -> Executable:
    """Registers lanes that hold available jobs and are not in the registry.

    Looks at up to `batch_size` lanes behind the one of `after_hash`: one row with how many it
    `examined` and `registered`, and the `hash` of the last one.
    """
    waiting = job.alias("waiting")
    hashed = lane_hash(waiting.c)
    place = {_HASH: bindparam("after_hash", type_=BigInteger)} | {
        name: cast(null(), waiting.c[name].type) for name in LANE
    }

    def following(found: CTE) -> Select[Any]:
        return (
            select(hashed.label(_HASH), *(waiting.c[name] for name in LANE))
            .where(hashed > found.c[_HASH], is_state(waiting.c.state, "available"))
            .order_by(hashed, waiting.c.scheduled_at_ms, waiting.c.id)
            .limit(number(1))
            .correlate(found)
        )

    found = _walk(place, following)
    entry = active_partition.alias()
    known = select(number(1)).where(*is_lane(entry, found.c)).scalar_subquery()
    forgotten = (
        select(*(found.c[name] for name in LANE))
        .where(found.c.depth > number(0), known.is_(None))
        .cte("forgotten")
        .prefix_with("MATERIALIZED")
    )
    registered = select(func.count()).select_from(forgotten).scalar_subquery()
    last = select(found).order_by(found.c.depth.desc()).limit(number(1)).subquery("last")
    return select(
        last.c.depth.label("examined"), registered.label("registered"), last.c[_HASH]
    ).add_cte(*register(forgotten))


@cache
def find_drained() -> Select[Any]:
    """The next `batch_size` entries of the registry behind `after_{column}`, in the order of its
    key, in which priorities fall: the columns of the lane, and whether it is `drained`.
    """
    place = {name: bindparam(f"after_{name}", type_=active_partition.c[name].type) for name in LANE}
    found = _walk(place, _next_entry)
    drained = first_job(found.c).scalar_subquery().is_(None)
    return (
        select(*(found.c[name] for name in LANE), drained.label("drained"))
        .where(found.c.depth > number(0))
        .order_by(found.c.depth)
    )


def _walk(place: Mapping[str, ColumnElement[Any]], following: Callable[[CTE], Any]) -> CTE:
    """The lanes behind a place, one after the other, with their `depth` in the walk."""
    start = select(
        *(cast(value, value.type).label(name) for name, value in place.items()),
        number(0).label("depth"),
    )
    found = start.cte("found", recursive=True)
    next_ = following(found).lateral("following")
    return found.union_all(
        select(*(next_.c[name] for name in place), found.c.depth + number(1))
        .select_from(found.join(next_, always()))
        .where(found.c.depth < bindparam("batch_size", type_=Integer))
    )


def _next_entry(place: FromClause) -> CompoundSelect[Any]:
    """The first lane behind a place: the longest prefix of the key that goes on decides.

    As a row comparison it would be one range, but priorities fall where all else rises.
    """
    entry = active_partition.alias("entry")
    arms = []
    for length in reversed(range(len(LANE))):
        name = LANE[length]
        entry_column, behind = entry.c[name], place.c[name]
        further = entry_column < behind if name == "priority" else entry_column > behind
        arms.append(
            select(*(entry.c[column] for column in LANE))
            .where(*(entry.c[column] == place.c[column] for column in LANE[:length]), further)
            .order_by(
                *(
                    entry.c[column].desc() if column == "priority" else entry.c[column]
                    for column in LANE[length:]
                )
            )
            .limit(number(1))
            .correlate(place)
        )
    return union_all(*arms).limit(number(1))
