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
    bindparam,
    column,
    delete,
    exists,
    func,
    select,
)
from sqlalchemy.dialects.postgresql import ARRAY

from headgate.queries.gate.parts import is_lane
from headgate.queries.lanes import LANE
from headgate.queries.literals import always, number
from headgate.queries.states import is_state
from headgate.tables import active_partition, job


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
    waiting = job.alias("waiting")
    return delete(active_partition).where(
        *is_lane(active_partition, drained.c),
        ~exists(
            select(number(1)).where(
                *is_lane(waiting, active_partition.c), is_state(waiting.c.state, "available")
            )
        ),
    )


def _drained() -> TableValuedAlias:
    kinds = {name: Integer() if name == "priority" else Text() for name in LANE}
    return (
        func.unnest(
            *(bindparam(f"drained_{name}_array", type_=ARRAY(kind)) for name, kind in kinds.items())
        )
        .table_valued(*(column(name, kind) for name, kind in kinds.items()))
        .render_derived(name="drained")
    )
