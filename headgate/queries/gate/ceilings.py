"""Ceilings: how many jobs of a partition may run at once.

What finds no room waits here, unless its queue `displaces`: then only the jobs of this very call
keep their places, and all others may have to make room.

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

from headgate.queries.gate.parts import ADDRESS, LEASE, probe
from headgate.queries.literals import always, number
from headgate.queries.states import is_state
from headgate.tables import inflight, job


def has_room(level: FromClause, lane: FromClause) -> ColumnElement[bool]:
    """The partition may start something, as far as can be seen without a lock."""
    return or_(level.c.ceiling.is_(None), _staying(level, lane) < level.c.ceiling)


def with_room(lane: CTE) -> Select[Any]:
    """The lanes with the `room` in their partition, which is locked where there is a ceiling.

    Without a known room the partition is `busy`: another gate holds it or has claimed there since
    the snapshot; or it is `missing` the row to lock. Where something may be displaced, `vacant` is
    the room without that, which is negative under a ceiling that was lowered.
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
    row = inflight.alias()
    seen = probe(
        select(row.c.epoch).where(
            row.c.queue == lane.c.queue, row.c.partition_key == lane.c.partition_key
        ),
        "seen",
    )
    limited = lane.c.ceiling.is_not(None)
    unmoved = and_(limited, locked.c.epoch == seen.c.epoch)
    rooms = {"room": _staying(lane, lane)}
    if "displaces" in lane.c:
        rooms["vacant"] = _running(lane).scalar_subquery()
    return select(
        lane,
        *(case((unmoved, lane.c.ceiling - taken)).label(name) for name, taken in rooms.items()),
        and_(limited, seen.c.epoch.is_(None)).label("missing"),
        and_(limited, seen.c.epoch.is_not(None), unmoved.is_not(always())).label("busy"),
    ).select_from(lane.outerjoin(seen, always()).outerjoin(locked, always()))


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


def _staying(limit: FromClause, lane: FromClause) -> ScalarSelect[int] | ColumnElement[int]:
    """How many running jobs of the partition keep their places, under the ceiling of `limit`."""
    running = _running(lane)
    if "displaces" not in limit.c:
        return running.scalar_subquery()
    own = running.where(job.c.lease_id == LEASE).scalar_subquery()
    return case((limit.c.displaces, own), else_=running.scalar_subquery())


def _running(lane: FromClause) -> Select[Any]:
    return (
        select(func.count())
        .select_from(job)
        .where(
            job.c.queue == lane.c.queue,
            job.c.partition_key == lane.c.partition_key,
            is_state(job.c.state, "running"),
        )
    )
