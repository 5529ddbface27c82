"""Ceilings: how many jobs of a partition may run at once. What finds no room waits.

Running jobs are counted, never kept as a number, so there is nothing to reconcile. What makes the
count safe in one statement is the epoch of the partition, which every claim under a ceiling raises:
if the version that was locked has the epoch of the snapshot, nobody has claimed there since the
snapshot that the count comes from. Whatever ends a job only makes more room.
"""

from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    FromClause,
    ScalarSelect,
    Select,
    and_,
    any_,
    case,
    func,
    or_,
    select,
    update,
)

from headgate.queries.gate.parts import ADDRESS, probe
from headgate.queries.literals import always, number
from headgate.queries.states import is_state
from headgate.tables import inflight, job


def has_room(lane: FromClause, ceiling: ColumnElement[int]) -> ColumnElement[bool]:
    """The partition may start something, as far as can be seen without a lock."""
    return or_(ceiling.is_(None), _running(lane) < ceiling)


def with_room(lane: CTE) -> Select[Any]:
    """The lanes with the `room` in their partition, which is locked where there is a ceiling.

    Without a known room the partition is `busy`: another gate holds it or has claimed there since
    the snapshot; or it is `missing` the row to lock.
    """
    held = inflight.alias()
    locked = (
        select(held.c.epoch)
        .where(
            lane.c.ceiling.is_not(None),
            held.c.queue == lane.c.queue,
            held.c.partition_key == lane.c.partition_key,
        )
        .with_for_update(skip_locked=True, of=held)
        .correlate(lane)
        .lateral("locked")
    )
    seen = inflight.alias()
    epoch = (
        select(seen.c.epoch)
        .where(seen.c.queue == lane.c.queue, seen.c.partition_key == lane.c.partition_key)
        .scalar_subquery()
    )
    limited = lane.c.ceiling.is_not(None)
    unmoved = and_(limited, locked.c.epoch == epoch)
    room = case((unmoved, lane.c.ceiling - _running(lane)))
    return select(
        lane,
        room.label("room"),
        and_(limited, epoch.is_(None)).label("missing"),
        and_(limited, epoch.is_not(None), unmoved.is_not(always())).label("busy"),
    ).select_from(lane.outerjoin(locked, always()))


def raise_epochs(queue: CTE, claimed: CTE) -> CTE:
    """Tells every gate with an older snapshot that its count of these partitions is out of date."""
    served = (
        select(claimed.c.queue, claimed.c.partition_key)
        .distinct()
        .join_from(claimed, queue, queue.c.queue == claimed.c.queue)
        .where(queue.c.ceiling.is_not(None))
        .subquery("served")
    )
    row = inflight.alias()
    found = probe(
        select(ADDRESS.label("address"))
        .select_from(row)
        .where(row.c.queue == served.c.queue, row.c.partition_key == served.c.partition_key),
        "row",
    )
    # The version of the snapshot is the one that was locked, or there would have been no room.
    rows = select(found.c.address).select_from(served.join(found, always()))
    return (
        update(inflight)
        .where(any_(func.array(rows.scalar_subquery())) == ADDRESS)
        .values(epoch=inflight.c.epoch + number(1))
        .returning(inflight.c.epoch)
        .cte("raising")
    )


def _running(lane: FromClause) -> ScalarSelect[int]:
    running = job.alias()
    return (
        select(func.count())
        .select_from(running)
        .where(
            running.c.queue == lane.c.queue,
            running.c.partition_key == lane.c.partition_key,
            is_state(running.c.state, "running"),
        )
        .scalar_subquery()
    )
