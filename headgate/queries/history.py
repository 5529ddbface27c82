"""What one queue, or all of them together, took in and finished over time."""

from functools import cache
from typing import Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Executable,
    Text,
    bindparam,
    func,
    select,
    union_all,
)

from headgate.queries.clock import now_ms
from headgate.queries.counts import unfolded
from headgate.queries.literals import number
from headgate.queries.shapes import total
from headgate.tables import queue_counter

MAX_BUCKETS: Final = 10_000
"""How many buckets an answer has at most; it begins no earlier than so many before now."""

_MAX_COUNTERS: Final = 50_000
_MAX_COUNTERS_OF_ALL: Final = 100_000


@cache
def history(*, one_queue: bool) -> Executable:
    """The newest buckets (at_ms, arrived, completed) of `wanted_queue` or of all, newest first.

    From `since_ms` on, and no further back than `span_ms`; each is `width_ms` wide. Buckets in
    which nothing happened are left out.
    """
    wanted = bindparam("wanted_queue", type_=Text)
    width = bindparam("width_ms", type_=BigInteger)
    since = func.greatest(
        bindparam("since_ms", type_=BigInteger),
        now_ms() - bindparam("span_ms", type_=BigInteger),
        type_=BigInteger,
    )
    entries = unfolded()

    def of_wanted(queue: ColumnElement[str]) -> list[ColumnElement[bool]]:
        return [queue == wanted] if one_queue else []

    newest = (
        select(queue_counter.c.bucket_ms, queue_counter.c.arrived, queue_counter.c.completed)
        .where(queue_counter.c.bucket_ms >= since, *of_wanted(queue_counter.c.queue))
        .order_by(queue_counter.c.bucket_ms.desc())
        .limit(number(_MAX_COUNTERS if one_queue else _MAX_COUNTERS_OF_ALL))
        .subquery("newest")
    )
    flow = union_all(
        select(newest),
        select(entries.c.bucket_ms, entries.c.arrived, entries.c.completed).where(
            entries.c.bucket_ms >= since,
            entries.c.arrived + entries.c.completed > number(0),
            *of_wanted(entries.c.queue),
        ),
    ).subquery("flow")
    at_ms = (flow.c.bucket_ms // width * width).label("at_ms")
    return (
        select(at_ms, total(flow.c.arrived), total(flow.c.completed))
        .group_by(at_ms)
        .order_by(at_ms.desc())
        .limit(number(MAX_BUCKETS))
    )
