"""The loaded case without policies: equal shares of the highest level, locked while drawn.

Each queue gets its part of the capacity by its weight, each of its partitions an equal part of
that, in turns. It is not work-conserving: what a lane cannot fill is left to `full`, which is then
asked for the rest. In return no job is looked at that is not claimed.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    FromClause,
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
from headgate.queries.shapes import materialized
from headgate.tables import concurrency_limit, job

STAND_BY: Final = 2
"""How many lanes more than jobs are taken, as some will turn out to be drained or busy."""


@cache
def fast() -> Update:
    """Claims up to `capacity` jobs of the highest priority level of each queue, and returns
    `queue_weight` behind the columns of the claim.

    Claims nothing while a ceiling lies on one of the queues, a bucket on a class that it meets, or
    several lanes belong to one partition, which would get several shares.
    """
    level = materialized(_levels(), "level")
    share = materialized(_shares(level), "share")
    lane = materialized(_lanes(level, share), "lane")
    limited = select(number(1)).where(concurrency_limit.c.queue == any_(QUEUES))
    chosen = draw_in_turn(lane, [lane.c.position, lane.c.place], ~exists(limited))
    claimed = claim(chosen.scalar_subquery(), read(clock(), "now_ms"), number(0))
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


def _lanes(level: CTE, share: CTE) -> Select[Any]:
    """The next lanes of each level, and how many jobs each may give."""
    wanted = share.c.jobs + number(STAND_BY)
    arms = (
        ring(level.c, pool, wanted, behind=behind).correlate(level, share)
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
        .limit(wanted)
        .correlate(level, share)
        .lateral("found")
    )
    return select(
        level.c.position, found, allotment(share.c.jobs, found).label("allotment")
    ).select_from(level.join(share, share.c.queue == level.c.queue).join(found, always()))


def allotment(jobs: ColumnElement[int], lane: FromClause) -> ColumnElement[int]:
    """How many of these jobs a lane at its `place` among those `found` may give: equal parts, the
    odd ones to the first. Lanes beyond stand by with one job each.
    """
    parts = func.least(lane.c.found, jobs, type_=BigInteger)
    odd = case((lane.c.place <= jobs % parts, number(1)), else_=number(0))
    return jobs // parts + odd


def draw_in_turn(
    lane: CTE,
    order: Sequence[ColumnElement[Any]],
    *guards: ColumnElement[bool],
    known: Mapping[str, ColumnElement[Any]] | None = None,
) -> Select[Any]:
    """Locks the oldest jobs of one lane after the other until the capacity is reached, and returns
    their addresses; nothing if a lane is of a class that has a bucket, or shares its partition.
    Columns that are `known` to be the same in all lanes need not be read from them.
    """
    # The offset keeps the order, in which the lazy join below then works.
    turn = select(lane).order_by(*order).offset(number(0)).subquery("turn")
    waiting = job.alias("waiting")
    columns: dict[str, Any] = {**dict(turn.c), **(known or {})}
    drawn = (
        next_jobs(waiting, columns, ADDRESS.label("address"))
        .limit(turn.c.allotment)
        .with_for_update(skip_locked=True, of=waiting)
        .correlate(turn)
        .lateral("drawn")
    )
    shared = select(number(1)).where(lane.c.shared)
    return (
        select(drawn.c.address)
        .select_from(turn.join(drawn, always()))
        .where(*guards, ~any_bucket(lane), ~exists(shared))
        .limit(CAPACITY)
    )
