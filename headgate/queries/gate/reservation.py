"""Reservations: a heavy job that light ones keep overtaking gets its rate class for itself.

What does not fit makes way for what does, so a class that is always in demand would never hold what
a heavy job costs. Once the first job of a lane has waited for twice the time in which the class
refills by its cost, the class saves up for it: nothing else of the class starts until it has.

A reservation ends by itself: when its job does not wait any more, or when it was not used in time,
since whatever else keeps a job from starting must not hold the class up for longer.
"""

from functools import cache
from typing import Any, Final

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    CompoundSelect,
    Executable,
    FromClause,
    Select,
    Update,
    and_,
    any_,
    exists,
    func,
    select,
    union_all,
    update,
)
from sqlalchemy.dialects.postgresql import distinct_on

from headgate.queries.gate import buckets, ceilings, draw, walk
from headgate.queries.gate.parts import CAPACITY, clock, probe, read
from headgate.queries.literals import always, never, number, word
from headgate.queries.shapes import materialized
from headgate.tables import concurrency_limit, rate_bucket

PATIENCE: Final = 2
"""How many times as long as its own refill a job has waited before the class is reserved."""

GRACE_MS: Final = 5_000
"""How long a job may take to start once the class holds what it costs."""


@cache
def reserve() -> Executable:
    """Reserves classes, each for the next lane in turn whose first job starves.

    Looks at up to `capacity` lanes of a level that nothing but the tokens keeps from starting, and
    returns where each level is to go on: rows (queue, priority, partition_key, rate_class).
    """
    now_ms = read(clock(), "now_ms")
    queue = materialized(walk.polled(ceiling=concurrency_limit.c.max_concurrent), "polled")
    level = materialized(walk.levels(queue), "level")
    lane = materialized(
        walk.lanes(level, ceilings.has_room, lambda _, lane: _is_limited(lane, now_ms)), "lane"
    )
    head = materialized(draw.heads(lane), "head")
    starving = materialized(_starving(head, now_ms), "starving")
    return _next_places(lane, starving).add_cte(_reserving(starving).cte("reserving"))


def _is_limited(lane: FromClause, now_ms: ColumnElement[int]) -> ColumnElement[bool]:
    """The class has a bucket that fills up, and saves up for nothing yet."""
    bucket = rate_bucket.alias()
    reserved = buckets.reservation(bucket, now_ms)
    free = (
        select(reserved.c.cost.is_(None))
        .select_from(bucket.outerjoin(reserved, always()))
        .where(bucket.c.name == lane.c.rate_class, *buckets.is_filling(bucket))
        .scalar_subquery()
    )
    return and_(lane.c.rate_class != word(""), func.coalesce(free, never()))


def _starving(head: CTE, now_ms: ColumnElement[int]) -> Select[Any]:
    """For each class the next in turn of the jobs that do not fit and have waited for long.

    Not those behind a higher priority: that they are overtaken is meant.
    """
    bucket = probe(
        select(
            func.least(head.c.tokens, rate_bucket.c.burst, type_=BigInteger).label("cost"),
            rate_bucket.c.window_ms,
            rate_bucket.c.limit_per_window,
            buckets.scaled_level(rate_bucket, now_ms).label("scaled"),
        ).where(rate_bucket.c.name == head.c.rate_class),
        "bucket",
    )
    higher = head.alias("higher")
    scaled_cost = bucket.c.cost * bucket.c.window_ms
    missing_ms = (scaled_cost - bucket.c.scaled) // bucket.c.limit_per_window + number(1)
    return (
        select(
            head.c.queue,
            head.c.priority,
            head.c.partition_key,
            head.c.rate_class,
            head.c.ulid,
            (now_ms + missing_ms + number(GRACE_MS)).label("until_ms"),
        )
        .select_from(head.join(bucket, always()))
        .where(
            bucket.c.cost > number(1),
            scaled_cost > bucket.c.scaled,
            (now_ms - head.c.scheduled_at_ms) // number(PATIENCE)
            > scaled_cost // bucket.c.limit_per_window,
            ~exists(
                select(number(1)).where(
                    higher.c.position == head.c.position,
                    higher.c.rate_class == head.c.rate_class,
                    higher.c.priority > head.c.priority,
                )
            ),
        )
        .ext(distinct_on(head.c.rate_class))
        .order_by(head.c.rate_class, head.c.turn, head.c.position)
    )


def _reserving(starving: CTE) -> Update:
    """A bucket that another gate holds just now is left for the next time."""
    bucket = rate_bucket.alias()
    free = (
        select(bucket.c.name)
        .where(bucket.c.name == starving.c.rate_class)
        .with_for_update(skip_locked=True, of=bucket)
        .correlate(starving)
        .lateral("free")
    )
    names = select(free.c.name).select_from(starving.join(free, always())).scalar_subquery()
    return (
        update(rate_bucket)
        .where(
            rate_bucket.c.name == starving.c.rate_class,
            rate_bucket.c.name == any_(func.array(names)),
        )
        .values(reserved_job_id=starving.c.ulid, reserved_until_ms=starving.c.until_ms)
        .returning(rate_bucket.c.name)
    )


def _next_places(lane: CTE, starving: CTE) -> CompoundSelect[Any]:
    place = ("queue", "priority", "partition_key", "rate_class")
    last = select(*(lane.c[name] for name in place)).where(
        lane.c.place == CAPACITY + number(walk.SPARE)
    )
    return union_all(last, select(*(starving.c[name] for name in place)))
