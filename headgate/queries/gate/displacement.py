"""Displacement: under a ceiling that cancels what runs, newcomers take the places of the oldest.

Only as many jobs are cancelled as newcomers were locked and found no vacant place, and only as many
newcomers start as places are free then. So the ceiling holds also where a job that should have made
room was just being acknowledged, and nothing is cancelled for a newcomer that does not come.
"""

from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Select,
    any_,
    func,
    or_,
    select,
    update,
)

from headgate.queries.gate.parts import ADDRESS, LEASE
from headgate.queries.literals import always, number
from headgate.queries.outcomes import lease_given_back
from headgate.queries.states import is_state, state_value
from headgate.tables import job


def crowded(chosen: CTE, lane: CTE) -> Select[Any]:
    """The partitions in which `excess` jobs have to make room: (tenant, queue, partition_key)."""
    crowd = (
        select(
            chosen.c.tenant,
            func.min(chosen.c.number).label("number"),
            (func.count() - func.max(chosen.c.vacant)).label("excess"),
        )
        .where(chosen.c.displaces)
        .group_by(chosen.c.tenant)
        .having(func.count() > func.max(chosen.c.vacant))
        .subquery("crowd")
    )
    return select(crowd.c.tenant, crowd.c.excess, lane.c.queue, lane.c.partition_key).select_from(
        crowd.join(lane, lane.c.number == crowd.c.number)
    )


def displace(crowd: CTE, now_ms: ColumnElement[int]) -> CTE:
    """Cancels the oldest running jobs of crowded partitions, except those of this very call.

    They end as if an operator had cancelled them, and the fence moves on: the worker learns it by
    the loss of its lease. One that is locked, by a report of its worker perhaps, stays.
    """
    running = job.alias("running")
    oldest = (
        select(ADDRESS.label("address"))
        .select_from(running)
        .where(
            running.c.queue == crowd.c.queue,
            running.c.partition_key == crowd.c.partition_key,
            is_state(running.c.state, "running"),
            running.c.lease_id != LEASE,
        )
        .order_by(running.c.claimed_at_ms, running.c.id)
        .limit(crowd.c.excess)
        .with_for_update(skip_locked=True, of=running)
        .correlate(crowd)
        .lateral("oldest")
    )
    doomed = select(oldest.c.address).select_from(crowd.join(oldest, always())).scalar_subquery()
    return (
        update(job)
        .where(any_(func.array(doomed)) == ADDRESS, is_state(job.c.state, "running").is_(always()))
        .values(
            state=state_value("cancelled"),
            finalized_at_ms=now_ms,
            fence=job.c.fence + number(1),
            rate_charge=number(0),
            **lease_given_back(),
        )
        .returning(job.c.queue, job.c.partition_key)
        .cte("displaced")
    )


def seated(chosen: CTE, crowd: CTE, displaced: CTE) -> Select[Any]:
    """The addresses of the newcomers that have a place now."""
    freed = (
        select(func.count())
        .select_from(
            crowd.join(
                displaced,
                (displaced.c.queue == crowd.c.queue)
                & (displaced.c.partition_key == crowd.c.partition_key),
            )
        )
        .where(crowd.c.tenant == chosen.c.tenant)
        .correlate(chosen)
        .scalar_subquery()
    )
    seat = func.row_number().over(partition_by=chosen.c.tenant, order_by=chosen.c.finish)
    seats = select(
        chosen.c.address,
        chosen.c.displaces,
        seat.label("seat"),
        (chosen.c.vacant + freed).label("places"),
    ).subquery("seats")
    return select(seats.c.address).where(
        or_(seats.c.displaces.is_not(always()), seats.c.seat <= seats.c.places)
    )
