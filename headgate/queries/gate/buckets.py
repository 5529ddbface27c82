"""Rate classes: token buckets in whole numbers, without drift.

A level is kept in units of token times window (`scaled`): then a refill of `limit_per_window`
tokens per window adds `limit_per_window` units per millisecond, and what is less than a token stays
as the remainder. A class without a bucket is unlimited; a paused one gives nothing.
"""

from typing import Any

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    FromClause,
    Integer,
    Select,
    and_,
    any_,
    case,
    cast,
    exists,
    func,
    not_,
    or_,
    select,
    update,
)
from sqlalchemy.sql.selectable import LateralFromClause

from headgate.queries.gate.parts import probe, still_available
from headgate.queries.lanes import LANE
from headgate.queries.literals import always, never, number, word
from headgate.tables import job, rate_bucket


def scaled_level(bucket: FromClause, now_ms: ColumnElement[int]) -> ColumnElement[int]:
    """What the bucket holds now, in units of token times window.

    Time counts only as far as it takes to fill the bucket, which keeps the product in range after
    any idle time, and never backwards, so a gate that read the clock earlier refills nothing twice.
    """
    full = bucket.c.burst * bucket.c.window_ms
    held = bucket.c.tokens * bucket.c.window_ms + bucket.c.remainder
    elapsed_ms = func.greatest(number(0), now_ms - bucket.c.refilled_at_ms, type_=BigInteger)
    # The limit may be 0 where CASE does not look.
    to_full_ms = (full - held) // func.nullif(
        bucket.c.limit_per_window, number(0), type_=BigInteger
    ) + number(1)
    refill = case(
        (
            bucket.c.limit_per_window > number(0),
            func.least(elapsed_ms, to_full_ms, type_=BigInteger) * bucket.c.limit_per_window,
        ),
        else_=number(0),
    )
    return func.least(full, held + refill, type_=BigInteger)


def reservation(bucket: FromClause, now_ms: ColumnElement[int]) -> LateralFromClause:
    """The job that the class saves up for: its `job_id`, its lane and its `cost`.

    None once it does not wait any more, so nobody has to end a reservation.
    """
    reserved = job.alias("reserved")
    found = select(
        reserved.c.ulid.label("job_id"),
        *(reserved.c[name] for name in LANE if name != "rate_class"),
        func.least(reserved.c.weight, bucket.c.burst, type_=BigInteger).label("cost"),
    ).where(
        bucket.c.reserved_until_ms > now_ms,
        # By the one key that no other index has a part of.
        reserved.c.ulid == bucket.c.reserved_job_id,
        reserved.c.rate_class == bucket.c.name,
        still_available(reserved),
    )
    return probe(found, "reservation")


def is_passed_over(reserved: FromClause, lane: FromClause) -> ColumnElement[bool]:
    """The class saves up for a job of another lane."""
    here = and_(*(reserved.c[name] == lane.c[name] for name in LANE if name != "rate_class"))
    return and_(reserved.c.cost.is_not(None), not_(here))


def is_open(lane: FromClause, now_ms: ColumnElement[int]) -> ColumnElement[bool]:
    """The class lets something of the lane pass, as far as can be seen without a lock.

    That is whatever costs no more than it holds; while it saves up for a job, nothing but that.
    """
    bucket = rate_bucket.alias()
    reserved = reservation(bucket, now_ms)
    needed = func.coalesce(reserved.c.cost, number(1), type_=BigInteger) * bucket.c.window_ms
    gives = and_(
        not_(bucket.c.paused),
        scaled_level(bucket, now_ms) >= needed,
        not_(is_passed_over(reserved, lane)),
    )
    verdict = (
        select(gives)
        .select_from(bucket.outerjoin(reserved, always()))
        .where(bucket.c.name == lane.c.rate_class)
        .scalar_subquery()
    )
    return or_(lane.c.rate_class == word(""), func.coalesce(verdict, always()))


def is_filling(bucket: FromClause) -> list[ColumnElement[bool]]:
    """Time adds tokens to the bucket."""
    return [not_(bucket.c.paused), bucket.c.limit_per_window > number(0)]


def fills_up(lane: FromClause) -> ColumnElement[bool]:
    """The lane is of a class that has a bucket, to which time adds tokens."""
    bucket = rate_bucket.alias()
    found = select(always()).where(bucket.c.name == lane.c.rate_class, *is_filling(bucket))
    return and_(lane.c.rate_class != word(""), func.coalesce(found.scalar_subquery(), never()))


def affords(waiting: FromClause, now_ms: ColumnElement[int]) -> ColumnElement[bool]:
    """The class of the job holds what it costs, as far as can be seen without a lock."""
    bucket = rate_bucket.alias()
    cost = func.least(waiting.c.weight, bucket.c.burst, type_=BigInteger)
    holds = and_(not_(bucket.c.paused), scaled_level(bucket, now_ms) >= cost * bucket.c.window_ms)
    verdict = select(holds).where(bucket.c.name == waiting.c.rate_class).scalar_subquery()
    return func.coalesce(verdict, always())


def any_bucket(lane: CTE) -> ColumnElement[bool]:
    """One of these lanes is of a class that has a bucket."""
    bucket = probe(
        select(number(1)).select_from(rate_bucket).where(rate_bucket.c.name == lane.c.rate_class),
        "bucket",
    )
    classed = lane.join(bucket, always())
    return exists(select(number(1)).select_from(classed).where(lane.c.rate_class != word("")))


def locked_classes(lane: CTE, now_ms: ColumnElement[int]) -> Select[Any]:
    """The buckets of the classes of these lanes: (name, number, held, burst, window_ms, scaled).

    One that another gate holds now, or that was paused meanwhile, comes without `held` and what
    follows. The level is that of the newest version, as the lock re-reads the row.
    """
    named = (
        select(lane.c.rate_class.label("name"))
        .where(lane.c.rate_class != word(""))
        .distinct()
        .subquery("named")
    )
    bucket = rate_bucket.alias()
    known = select(always()).where(bucket.c.name == named.c.name).scalar_subquery()
    held = rate_bucket.alias()
    locked = (
        select(
            always().label("held"),
            held.c.burst,
            held.c.window_ms,
            scaled_level(held, now_ms).label("scaled"),
        )
        .where(held.c.name == named.c.name, not_(held.c.paused))
        .with_for_update(skip_locked=True, of=held)
        .lateral("locked")
    )
    return (
        select(named.c.name, func.row_number().over().label("number"), locked)
        .select_from(named.outerjoin(locked, always()))
        .where(known)
    )


def charge(classes: CTE) -> ColumnElement[int]:
    """What a job takes out of the bucket of its class: its weight, at most all that fits in."""
    cost = (
        select(func.least(job.c.weight, classes.c.burst))
        .where(classes.c.name == job.c.rate_class)
        .scalar_subquery()
    )
    return cast(func.coalesce(cost, number(0)), Integer)


def spend(classes: CTE, claimed: CTE, now_ms: ColumnElement[int]) -> CTE:
    """Takes the charges of the claimed jobs out of the buckets, and writes no other bucket."""
    spent = (
        select(
            claimed.c.rate_class, cast(func.sum(claimed.c.rate_charge), BigInteger).label("tokens")
        )
        .where(claimed.c.rate_charge > number(0))
        .group_by(claimed.c.rate_class)
        .subquery("spent")
    )
    left = classes.c.scaled - spent.c.tokens * classes.c.window_ms
    return (
        update(rate_bucket)
        .where(
            rate_bucket.c.name == classes.c.name,
            classes.c.name == spent.c.rate_class,
            # Says nothing new, but binds the index whichever way the planner joins.
            rate_bucket.c.name == any_(func.array(select(classes.c.name).scalar_subquery())),
        )
        .values(
            tokens=left // classes.c.window_ms,
            remainder=left % classes.c.window_ms,
            refilled_at_ms=func.greatest(rate_bucket.c.refilled_at_ms, now_ms),
        )
        .returning(rate_bucket.c.name)
        .cte("spending")
    )
