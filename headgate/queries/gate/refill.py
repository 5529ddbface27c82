"""When to look again: what a call came back empty for may be only a matter of time."""

from functools import cache
from typing import Any

from sqlalchemy import CTE, BigInteger, ColumnElement, FromClause, Select, func, select

from headgate.queries.gate import buckets, ceilings, draw, walk
from headgate.queries.gate.parts import clock, probe, read
from headgate.queries.literals import always, number
from headgate.queries.shapes import materialized
from headgate.tables import concurrency_limit, rate_bucket


@cache
def refill() -> Select[Any]:
    """One row with `refill_ms`: in how many milliseconds a rate class will hold what the first job
    of a lane costs, NULL where none of them waits for that alone.

    Looks at up to `capacity` lanes of each level, those of which only the tokens keep something
    from starting. A class that saves up for a heavy job is waited for until it has.
    """
    now_ms = read(clock(), "now_ms")
    queue = materialized(walk.polled(ceiling=concurrency_limit.c.max_concurrent), "polled")
    level = materialized(walk.levels(queue), "level")
    lane = materialized(
        walk.lanes(level, ceilings.has_room, lambda _, lane: buckets.fills_up(lane)), "lane"
    )
    head = materialized(draw.heads(lane), "head")
    missing = probe(_missing(head, now_ms), "missing")
    return select(func.min(missing.c.missing_ms).label("refill_ms")).select_from(
        head.join(missing, always())
    )


def _missing(head: CTE, now_ms: ColumnElement[int]) -> Select[Any]:
    bucket: FromClause = rate_bucket.alias()
    reserved = buckets.reservation(bucket, now_ms)
    own = func.least(head.c.tokens, bucket.c.burst, type_=BigInteger)
    cost = func.greatest(own, reserved.c.cost, type_=BigInteger)
    lacking = cost * bucket.c.window_ms - buckets.scaled_level(bucket, now_ms)
    # Rounded up; where nothing is lacking any more it came in this moment.
    missing_ms = (lacking - number(1)) // bucket.c.limit_per_window + number(1)
    return (
        select(func.greatest(number(0), missing_ms, type_=BigInteger).label("missing_ms"))
        .select_from(bucket.outerjoin(reserved, always()))
        .where(bucket.c.name == head.c.rate_class)
    )
