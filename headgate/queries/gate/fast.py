"""The loaded case without policies: equal shares of the highest level, locked while drawn.

Each queue gets its part of the capacity by its weight, each of its partitions an equal part of
that, in turns. It is not work-conserving: what a lane cannot fill is left to `full`, which is then
asked for the rest. In return no job is looked at that is not claimed.
"""

from functools import cache
from typing import Any, Final

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    Select,
    Update,
    any_,
    case,
    cast,
    exists,
    func,
    select,
    union_all,
)
from sqlalchemy.types import Double

from headgate.queries.gate.buckets import any_bucket
from headgate.queries.gate.parts import (
    ADDRESS,
    CAPACITY,
    QUEUES,
    WORKER,
    claim,
    clock,
    materialized,
    next_jobs,
    probe,
    read,
)
from headgate.queries.gate.walk import (
    next_level,
    ring,
    ring_order,
    unpaused_queues,
    with_cursor,
)
from headgate.queries.literals import always, never, number, word
from headgate.tables import concurrency_limit, job

_SPARE: Final = 2


@cache
def fast(*, weighted: bool) -> Update:
    """Claims up to `capacity` jobs of the highest priority level of each queue.

    Claims nothing while a ceiling lies on one of the queues, a bucket on a class that it meets, or
    several lanes belong to one partition, which would get several shares.
    `weighted` shares the capacity between several queues, and returns `queue_weight` behind the
    columns of the claim.
    """
    level = materialized(_levels(), "level")
    share = materialized(_shares(level), "share") if weighted else None
    lane = materialized(_lanes(level, share), "lane")
    chosen = materialized(_draw(lane), "chosen")
    claimed = claim(select(chosen.c.address).scalar_subquery(), read(clock(), "now_ms"), number(0))
    if not weighted:
        return claimed
    of_queue = select(level.c.weight).where(level.c.queue == job.c.queue).scalar_subquery()
    return claimed.returning(of_queue.label("queue_weight"))


def _levels() -> Select[Any]:
    """The highest level of each queue that has lanes, with its cursor."""
    queue = unpaused_queues()
    heads = (
        next_level(queue.c.queue, pool, None).correlate(queue).scalar_subquery()
        for pool in (word(""), WORKER)
    )
    top = probe(select(func.greatest(*heads).label("priority")).correlate(queue), "top")
    found = (
        select(queue, top.c.priority)
        .select_from(queue.join(top, always()))
        .where(top.c.priority.is_not(None))
    )
    return with_cursor(found, queue=queue.c.queue, priority=top.c.priority)


def _shares(level: CTE) -> Select[Any]:
    """How many of the first `capacity` places in the race of the queues fall to each."""
    place = func.generate_series(number(1), CAPACITY).table_valued("rank").render_derived("place")
    finish = level.c.virtual_time + cast(place.c.rank, Double) / level.c.weight
    won = (
        select(level.c.queue)
        .select_from(level.join(place, always()))
        .order_by(finish, level.c.position)
        .limit(CAPACITY)
        .subquery("won")
    )
    return select(won.c.queue, func.count().label("jobs")).group_by(won.c.queue)


def _lanes(level: CTE, share: CTE | None) -> Select[Any]:
    """The next lanes of each level, and how many jobs each may give: equal parts of the share,
    the odd ones to the first. Lanes beyond the share stand by with one job each.
    """
    jobs: ColumnElement[int] = CAPACITY if share is None else share.c.jobs
    source = level if share is None else level.join(share, share.c.queue == level.c.queue)
    outer = (level,) if share is None else (level, share)
    arms = (
        ring(level, pool, jobs + number(_SPARE), behind=behind).correlate(*outer)
        for behind in (True, False)
        for pool in (word(""), WORKER)
    )
    entry = union_all(*arms).lateral("entry")
    order = ring_order(entry)
    same = func.lag(entry.c.partition_key).over(order_by=order) == entry.c.partition_key
    found = (
        select(
            entry,
            func.row_number().over(order_by=order).label("place"),
            func.count().over().label("found"),
            func.coalesce(same, never()).label("shared"),
        )
        .order_by(*order)
        .limit(jobs + number(_SPARE))
        .correlate(*outer)
        .lateral("found")
    )
    parts = func.least(found.c.found, jobs, type_=BigInteger)
    odd = case((found.c.place <= jobs % parts, number(1)), else_=number(0))
    return select(level.c.position, found, (jobs // parts + odd).label("allotment")).select_from(
        source.join(found, always())
    )


def _draw(lane: CTE) -> Select[Any]:
    """Locks the oldest jobs of one lane after the other until the capacity is reached."""
    # The offset keeps the order, in which the lazy join below then works.
    turn = select(lane).order_by(lane.c.position, lane.c.place).offset(number(0)).subquery("turn")
    waiting = job.alias("waiting")
    drawn = (
        next_jobs(waiting, turn.c, ADDRESS.label("address"))
        .limit(turn.c.allotment)
        .with_for_update(skip_locked=True, of=waiting)
        .correlate(turn)
        .lateral("drawn")
    )
    one = number(1)
    return (
        select(drawn.c.address)
        .select_from(turn.join(drawn, always()))
        .where(
            ~exists(select(one).where(concurrency_limit.c.queue == any_(QUEUES))),
            ~any_bucket(lane),
            ~exists(select(one).where(lane.c.shared)),
        )
        .limit(CAPACITY)
    )
