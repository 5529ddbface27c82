"""Lanes that were found drained leave the registry, in two statements of one transaction.

The first locks them, except those that a producer pins. The second, whose snapshot is newer than
these locks, deletes the ones that still have no available job. A producer that comes between waits
for the deletion, finds the entry gone and adds it again.
"""

from functools import cache
from typing import Any

from sqlalchemy import (
    Delete,
    Integer,
    Select,
    TableValuedAlias,
    Text,
    any_,
    bindparam,
    column,
    delete,
    func,
    select,
)
from sqlalchemy.dialects.postgresql import ARRAY

from headgate.queries.gate.parts import ADDRESS, first_job, probe
from headgate.queries.lanes import LANE, is_lane
from headgate.queries.literals import always, number
from headgate.tables import active_partition


@cache
def lock_lanes() -> Select[Any]:
    """Locks those of the lanes `drained_{column}_array` that are free; a row for each."""
    drained = _drained()
    locked = (
        select(number(1).label("held"))
        .select_from(active_partition)
        .where(*is_lane(active_partition, drained.c))
        .with_for_update(skip_locked=True)
        .lateral("locked")
    )
    return select(drained).select_from(drained.join(locked, always()))


@cache
def delete_lanes() -> Delete:
    """Deletes those of the locked lanes that have no available job."""
    drained = _drained()
    entry = active_partition.alias()
    found = probe(
        select(ADDRESS.label("address")).select_from(entry).where(*is_lane(entry, drained.c)),
        "entry",
    )
    empty = (
        select(found.c.address)
        .select_from(drained.join(found, always()))
        .where(first_job(drained.c).scalar_subquery().is_(None))
        .scalar_subquery()
    )
    return delete(active_partition).where(any_(func.array(empty)) == ADDRESS)


def _drained() -> TableValuedAlias:
    kinds = {name: Integer() if name == "priority" else Text() for name in LANE}
    return (
        func.unnest(
            *(bindparam(f"drained_{name}_array", type_=ARRAY(kind)) for name, kind in kinds.items())
        )
        .table_valued(*(column(name, kind) for name, kind in kinds.items()))
        .render_derived(name="drained")
    )
