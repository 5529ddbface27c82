"""The commonest case: all that waits is in one lane, and no policy concerns it."""

from functools import cache

from sqlalchemy import Update, exists, func, select

from headgate.queries.gate.parts import (
    ADDRESS,
    CAPACITY,
    LANE_BINDS,
    claim,
    clock,
    is_served,
    next_jobs,
    read,
)
from headgate.queries.literals import number, word
from headgate.tables import (
    active_partition,
    concurrency_limit,
    job,
    queue_state,
    rate_bucket,
)


@cache
def direct() -> Update:
    """Claims the oldest jobs of the lane `lane_{column}`, which is not pinned to a worker.

    Claims nothing unless it is the only lane that the worker may serve and neither a pause, a
    ceiling nor a rate class concerns it. So whatever it returns is all that can be claimed now;
    nothing at all may also mean that it was not applicable.
    """
    lane = {**LANE_BINDS, "sticky_worker": word("")}
    lanes = select(number(1)).where(*is_served(active_partition)).limit(number(2)).subquery("lanes")
    waiting = job.alias("waiting")
    one = number(1)
    chosen = (
        next_jobs(waiting, lane, ADDRESS)
        .where(
            select(func.count() == one).select_from(lanes).scalar_subquery(),
            ~exists(select(one).where(queue_state.c.queue == lane["queue"], queue_state.c.paused)),
            ~exists(select(one).where(concurrency_limit.c.queue == lane["queue"])),
            ~exists(select(one).where(rate_bucket.c.name == lane["rate_class"])),
        )
        .limit(CAPACITY)
        .with_for_update(skip_locked=True, of=waiting)
    )
    now_ms = read(clock(), "now_ms")
    return claim(chosen.scalar_subquery(), now_ms, number(0))
