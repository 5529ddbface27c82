"""How many jobs there are, without looking at jobs: base rows and what is not folded into them yet.

Both are read in one statement, so a fold in between counts nothing twice. The parts here are shared
by every read that shows counts or knows the queues by them.
"""

from functools import cache
from typing import Any, Final

from sqlalchemy import (
    CTE,
    ColumnElement,
    Executable,
    FromClause,
    Select,
    Text,
    bindparam,
    cast,
    func,
    select,
    tuple_,
    union,
    union_all,
)

from headgate.queries.clock import HOUR_MS, now_ms
from headgate.queries.literals import always, number
from headgate.queries.shapes import materialized, total
from headgate.tables import enqueue_policy, ledger, queue_count, queue_counter, queue_state

UNFOLDED: Final = 50_000
"""How many rows of the ledger a read looks at; beyond, what it says is approximate."""


def unfolded() -> CTE:
    """The rows of the ledger, up to one more than `UNFOLDED`. The ledger has no order to ask for:
    whatever is left out makes the answer approximate.
    """
    columns = ("queue", "partition_key", "state", "n", "arrived", "completed", "bucket_ms")
    return materialized(
        select(*(ledger.c[name] for name in columns)).limit(number(UNFOLDED + 1)), "unfolded"
    )


def is_cut(entries: CTE) -> ColumnElement[bool]:
    """Whether the ledger held more than was read of it."""
    read = select(func.count()).select_from(entries).scalar_subquery()
    return (read > number(UNFOLDED)).label("approximate")


def counted(entries: CTE, *of_queue: ColumnElement[str]) -> Select[Any]:
    """Jobs by (queue, state), of one queue or of all; only what is there."""
    parts = union_all(
        select(queue_count.c.queue, queue_count.c.state, queue_count.c.n).where(
            *(queue_count.c.queue == name for name in of_queue)
        ),
        select(entries.c.queue, entries.c.state, entries.c.n).where(
            *(entries.c.queue == name for name in of_queue)
        ),
    ).subquery("parts")
    return (
        select(parts.c.queue, parts.c.state, total(parts.c.n).label("n"))
        .group_by(parts.c.queue, parts.c.state)
        .having(func.sum(parts.c.n) > number(0))
    )


def known_queues(counts: FromClause, entries: CTE) -> Any:
    """The names of all queues: those that hold jobs, those that somebody said something of, and
    those in which something came in or was completed in the last hour.
    """
    hour_ago = now_ms() - number(HOUR_MS)
    return union(
        select(counts.c.queue),
        select(queue_state.c.queue),
        select(enqueue_policy.c.queue),
        _counted_since(hour_ago),
        select(entries.c.queue).where(
            entries.c.arrived + entries.c.completed > number(0), entries.c.bucket_ms > hour_ago
        ),
    )


def _counted_since(since_ms: ColumnElement[int]) -> Select[Any]:
    """The queues with minute buckets later than that: a probe for each queue that has any at all,
    however many buckets there are.
    """

    def smallest(*bound: ColumnElement[bool]) -> Select[Any]:
        return (
            select(queue_counter.c.queue)
            .where(*bound)
            .order_by(queue_counter.c.queue)
            .limit(number(1))
        )

    first = smallest().subquery("first")
    found = select(first.c.queue).cte("counted_queue", recursive=True)
    following = (
        smallest(queue_counter.c.queue > found.c.queue).correlate(found).lateral("following")
    )
    found = found.union_all(select(following.c.queue).select_from(found.join(following, always())))
    # Bounds on both columns, so that the order is that of the key and of no other index.
    later = (
        select(queue_counter.c.queue)
        .where(
            tuple_(queue_counter.c.queue, queue_counter.c.bucket_ms)
            > tuple_(found.c.queue, since_ms),
            queue_counter.c.queue <= found.c.queue,
        )
        .order_by(queue_counter.c.queue, queue_counter.c.bucket_ms)
        .limit(number(1))
        .correlate(found)
        .scalar_subquery()
    )
    return select(found.c.queue).where(later.is_not(None))


@cache
def count_jobs(*, one_queue: bool) -> Executable:
    """A row (state, n) for each state that occurs, all with `approximate`; of `queue` or of all.

    One row without a state when there are no jobs.
    """
    entries = unfolded()
    of_queue = [bindparam("wanted_queue", type_=Text)] if one_queue else []
    by_queue = counted(entries, *of_queue).subquery("by_queue")
    by_state = (
        select(by_queue.c.state, total(by_queue.c.n).label("n"))
        .group_by(by_queue.c.state)
        .subquery("by_state")
    )
    cut = select(is_cut(entries)).subquery("cut")
    return (
        select(cast(by_state.c.state, Text).label("state"), by_state.c.n, cut.c.approximate)
        .select_from(cut.outerjoin(by_state, always()))
        .order_by(by_state.c.state)
    )
