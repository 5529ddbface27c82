"""Lanes and jobs compared: lanes that wait unregistered, and entries without a job.

Both are walked from entry to entry along an index, each step one probe, so a pass costs what it
looks at in lanes, however many jobs wait in them.
"""

from functools import cache
from typing import Any, Final

from sqlalchemy import (
    CTE,
    ColumnElement,
    Executable,
    FromClause,
    Integer,
    Select,
    Text,
    bindparam,
    cast,
    func,
    select,
    union_all,
)
from sqlalchemy.sql.selectable import LateralFromClause

from headgate.queries.gate.parts import first_job, is_lane
from headgate.queries.lanes import LANE, register
from headgate.queries.literals import always, number
from headgate.queries.states import is_state
from headgate.tables import active_partition, job

# The order of each index; priorities fall.
_REGISTRY: Final = LANE
_WAITING: Final = ("queue", "sticky_worker", "priority", "rate_class", "partition_key")


@cache
def register_forgotten() -> Executable:
    """Registers lanes that hold available jobs and are not in the registry.

    Looks at up to `batch_size` lanes behind `after_{column}`: one row with how many it `examined`
    and `registered`, and the columns of the last one.
    """
    waiting = job.alias("waiting")
    found = _walk(waiting, _WAITING, is_state(waiting.c.state, "available"))
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
        last.c.depth.label("examined"),
        registered.label("registered"),
        *(last.c[name] for name in LANE),
    ).add_cte(*register(forgotten))


@cache
def find_drained() -> Select[Any]:
    """The next `batch_size` entries of the registry behind `after_{column}`, in the order of the
    index: the columns of the lane, and whether it is `drained`.
    """
    entry = active_partition.alias("entry")
    found = _walk(entry, _REGISTRY)
    drained = first_job(found.c).scalar_subquery().is_(None)
    return (
        select(*(found.c[name] for name in LANE), drained.label("drained"))
        .where(found.c.depth > number(0))
        .order_by(found.c.depth)
    )


def _walk(entry: Any, order: tuple[str, ...], *conditions: ColumnElement[bool]) -> CTE:
    """The distinct lanes of `entry` behind `after_{column}`, with their `depth` in the walk."""
    start = select(
        *(cast(_bind(name), _bind(name).type).label(name) for name in LANE),
        number(0).label("depth"),
    )
    found = start.cte("found", recursive=True)
    following = _following(entry, order, found, conditions)
    return found.union_all(
        select(*(following.c[name] for name in LANE), found.c.depth + number(1))
        .select_from(found.join(following, always()))
        .where(found.c.depth < bindparam("batch_size", type_=Integer))
    )


def _following(
    entry: Any, order: tuple[str, ...], place: FromClause, conditions: tuple[Any, ...]
) -> LateralFromClause:
    """The first lane behind a place: the longest prefix of the order that goes on decides.

    As a row comparison it would be one range, but priorities fall where all else rises.
    """
    arms = []
    for length in reversed(range(len(order))):
        name = order[length]
        entry_column, behind = entry.c[name], place.c[name]
        further = entry_column < behind if name == "priority" else entry_column > behind
        arms.append(
            select(*(entry.c[column] for column in LANE))
            .where(
                *(entry.c[column] == place.c[column] for column in order[:length]),
                further,
                *conditions,
            )
            .order_by(
                *(
                    entry.c[column].desc() if column == "priority" else entry.c[column]
                    for column in order[length:]
                )
            )
            .limit(number(1))
            .correlate(place)
        )
    return union_all(*arms).limit(number(1)).lateral("following")


def _bind(name: str) -> Any:
    return bindparam(f"after_{name}", type_=Integer if name == "priority" else Text(collation="C"))
