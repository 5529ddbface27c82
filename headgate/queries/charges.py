"""What an attempt took out of the bucket of its class, against what it really cost.

The gate charges the weight of a job before anybody knows better. A report that knows settles the
difference: what was not used goes back, up to the burst, and what was used beyond becomes a debt
that the refill has to pay first.
"""

from functools import cache
from typing import Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Executable,
    Numeric,
    any_,
    cast,
    collate,
    func,
    not_,
    select,
    update,
)

from headgate.queries.clock import instant
from headgate.queries.gate.buckets import scaled_level
from headgate.queries.literals import number
from headgate.queries.outcomes import LEASE_INPUTS, batch_of, holds
from headgate.tables import job, rate_bucket

_DEEPEST_DEBT: Final = -(2**62)
"""In units of token times window, like a level; it leaves room for the sums of the gate."""


@cache
def settle_charges() -> Executable:
    """Settles the charges of a batch of leases with `actual_weight_array`; a row for each bucket.

    Leases that are not held change nothing, and neither do jobs that were not charged or whose
    class is paused. The jobs stay locked, so that the report which follows in the transaction still
    holds the leases that were settled here.
    """
    source = batch_of({**LEASE_INPUTS, "actual_weight": BigInteger()})
    clock = select(instant().label("now_ms")).cte("clock").prefix_with("MATERIALIZED")
    now_ms = select(clock.c.now_ms).scalar_subquery()
    charged = (
        select(job.c.rate_class, (job.c.rate_charge - source.c.actual_weight).label("unused"))
        .where(holds(source), job.c.rate_charge > number(0))
        .order_by(collate(job.c.ulid, "C"))
        .with_for_update(key_share=True, of=job)
        .cte("charged")
        .prefix_with("MATERIALIZED")
    )
    sums = (
        select(charged.c.rate_class, func.sum(charged.c.unused).label("unused"))
        .group_by(charged.c.rate_class)
        .cte("sums")
    )
    classes = func.array(select(sums.c.rate_class).scalar_subquery())
    bucket = rate_bucket.alias()
    held = (
        select(
            bucket.c.name,
            bucket.c.window_ms,
            (bucket.c.burst * bucket.c.window_ms).label("full"),
            scaled_level(bucket, now_ms).label("scaled"),
        )
        .where(bucket.c.name == any_(classes), not_(bucket.c.paused))
        .order_by(bucket.c.name)
        .with_for_update(key_share=True, of=bucket)
        .cte("held")
        .prefix_with("MATERIALIZED")
    )
    # Wide enough for any weight and window; then cut to what a bucket holds.
    unused = cast(sums.c.unused, Numeric) * cast(held.c.window_ms, Numeric)
    left = func.greatest(
        func.least(cast(held.c.scaled, Numeric) + unused, held.c.full), number(_DEEPEST_DEBT)
    )
    level = (
        select(held.c.name, held.c.window_ms, cast(left, BigInteger).label("scaled"))
        .select_from(held.join(sums, sums.c.rate_class == held.c.name))
        .cte("level")
        .prefix_with("MATERIALIZED")
    )
    remainder = _floored_remainder(level.c.scaled, level.c.window_ms)
    return (
        update(rate_bucket)
        .where(
            rate_bucket.c.name == level.c.name,
            # Says nothing new, but binds the index whichever way the planner joins.
            rate_bucket.c.name == any_(classes),
        )
        .values(
            tokens=(level.c.scaled - remainder) // level.c.window_ms,
            remainder=remainder,
            refilled_at_ms=func.greatest(rate_bucket.c.refilled_at_ms, now_ms),
        )
        .returning(rate_bucket.c.name)
    )


def _floored_remainder(
    value: ColumnElement[int], divisor: ColumnElement[int]
) -> ColumnElement[int]:
    """Never negative, also of a debt."""
    remainder: ColumnElement[int] = (value % divisor + divisor) % divisor
    return remainder
