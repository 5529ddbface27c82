"""Refusal: the end of what finds no room, in queues whose ceiling discards or cancels it.

It needs no lock on the partition. If as many jobs run in the snapshot as the ceiling allows, then
there was no room at that instant, whatever starts or ends meanwhile; so a job is refused only where
it would have had to wait. It follows `full`, which gives every place that is free first.
"""

from functools import cache
from typing import Any, Final

from sqlalchemy import (
    CTE,
    ColumnElement,
    Executable,
    Select,
    Update,
    any_,
    case,
    cast,
    func,
    not_,
    select,
    update,
)

from headgate.queries.gate import buckets, ceilings, walk
from headgate.queries.gate.parts import (
    ADDRESS,
    clock,
    next_jobs,
    read,
    still_available,
)
from headgate.queries.literals import always, number, word
from headgate.queries.shapes import materialized
from headgate.queries.states import state_value
from headgate.tables import concurrency_limit, job, job_state

MODES: Final = ("discard", "cancel_incoming")

LIMIT: Final = 1_000
"""How many jobs one statement refuses at most."""

_PER_LANE: Final = 200


@cache
def refuse() -> Executable:
    """Ends waiting jobs of saturated partitions: one row with their number.

    Only jobs that nothing but the ceiling blocks: those of a paused queue, of a quarantined
    fingerprint or without the tokens of their class wait, whatever the ceiling says. `capacity`
    bounds the lanes that are looked at.
    """
    now_ms = read(clock(), "now_ms")
    queue = materialized(_refusing_queues(), "polled")
    level = materialized(walk.levels(queue), "level")
    lane = materialized(
        walk.lanes(
            level,
            lambda level, lane: not_(ceilings.has_room(level, lane)),
            lambda _, lane: buckets.is_open(lane, now_ms),
        ),
        "lane",
    )
    refused = _refused(_doomed(lane, now_ms), queue, now_ms)
    return select(func.count().label("refused")).select_from(
        refused.returning(job.c.id).cte("refused")
    )


def _refusing_queues() -> Select[Any]:
    limits = {
        "ceiling": concurrency_limit.c.max_concurrent,
        "on_saturated": concurrency_limit.c.on_saturated,
    }
    queue = walk.polled(**limits).subquery("limited")
    return select(queue).where(queue.c.on_saturated.in_([word(mode) for mode in MODES]))


def _doomed(lane: CTE, now_ms: ColumnElement[int]) -> Select[Any]:
    waiting = job.alias("waiting")
    drawn = (
        next_jobs(waiting, lane.c, ADDRESS.label("address"))
        .where(buckets.affords(waiting, now_ms))
        .limit(number(_PER_LANE))
        .with_for_update(skip_locked=True, of=waiting)
        .correlate(lane)
        .lateral("drawn")
    )
    return select(drawn.c.address).select_from(lane.join(drawn, always())).limit(number(LIMIT))


def _refused(doomed: Select[Any], queue: CTE, now_ms: ColumnElement[int]) -> Update:
    mode = select(queue.c.on_saturated).where(queue.c.queue == job.c.queue).scalar_subquery()
    state = case((mode == word("discard"), state_value("archived")), else_=state_value("cancelled"))
    return (
        update(job)
        .where(any_(func.array(doomed.scalar_subquery())) == ADDRESS, still_available(job))
        .values(state=cast(state, job_state), finalized_at_ms=now_ms)
    )
