"""The partitions of a queue that hold available jobs."""

from functools import cache

from sqlalchemy import Executable, Text, bindparam, distinct, func, select, union_all

from headgate.queries.counts import unfolded
from headgate.queries.literals import number
from headgate.queries.shapes import materialized, page_offset, page_size, total
from headgate.queries.states import is_state
from headgate.tables import partition_count


@cache
def waiting_partitions() -> Executable:
    """A page of (partition_key, waiting) of `wanted_queue` by key, from base rows and ledger.

    The ledger can empty no more partitions than it names, so that many base rows beyond the page
    are enough.
    """
    queue = bindparam("wanted_queue", type_=Text)
    entries = unfolded()
    changed = materialized(
        select(entries.c.partition_key, entries.c.n).where(
            entries.c.queue == queue, is_state(entries.c.state, "available")
        ),
        "changed",
    )
    named = select(func.count(distinct(changed.c.partition_key))).scalar_subquery()
    base = (
        select(partition_count.c.partition_key, partition_count.c.n)
        .where(
            partition_count.c.queue == queue,
            is_state(partition_count.c.state, "available"),
            partition_count.c.n > number(0),
        )
        .order_by(partition_count.c.partition_key)
        .limit(page_offset() + page_size() + named)
        .subquery("base")
    )
    parts = union_all(select(base), select(changed)).subquery("parts")
    return (
        select(parts.c.partition_key, total(parts.c.n).label("waiting"))
        .group_by(parts.c.partition_key)
        .having(func.sum(parts.c.n) > number(0))
        .order_by(parts.c.partition_key)
        .offset(page_offset())
        .limit(page_size())
    )
