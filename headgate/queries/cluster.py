"""The live workers: one by one, and all together with the queues that they take jobs of.

The registry is small, as workers that died are removed from it; no index is kept on a column that
every heartbeat writes.
"""

from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Executable, Text, any_, column, func, select, union

from headgate.queries.clock import now_ms
from headgate.queries.counts import counted, known_queues, unfolded
from headgate.queries.literals import always, number
from headgate.queries.shapes import materialized, page_offset, page_size, total
from headgate.queries.workers import LIVE_WINDOW_MS
from headgate.tables import worker


def is_alive(row: Any = worker) -> ColumnElement[bool]:
    """The last heartbeat is not older than the live window."""
    alive: ColumnElement[bool] = row.c.heartbeat_at_ms >= now_ms() - number(LIVE_WINDOW_MS)
    return alive


def live_workers_of(queue: ColumnElement[str]) -> ColumnElement[int]:
    """How many live workers take jobs of a queue."""
    return (
        select(func.count())
        .select_from(worker)
        .where(is_alive(), queue == any_(worker.c.queues))
        .scalar_subquery()
    )


@cache
def live_workers() -> Executable:
    """A page of the live workers by id."""
    return (
        select(
            *(each for each in worker.columns if each.name != "command"),
            worker.c.command.label("pending_command"),
        )
        .where(is_alive())
        .order_by(worker.c.worker_id)
        .offset(page_offset())
        .limit(page_size())
    )


@cache
def cluster() -> Executable:
    """A row (queue, live_workers) for each known queue and each that a live worker takes jobs of,
    by name, all with the totals of the live workers. One row without a queue when there is none.
    """
    live = materialized(select(worker).where(is_alive()), "live")
    totals = select(
        func.count().label("live"),
        select(func.count()).select_from(worker).scalar_subquery().label("total"),
        *(
            total(live.c[name]).label(f"{name}_total")
            for name in ("concurrency", "inflight", "polls", "empty_polls")
        ),
    ).select_from(live)
    entries = unfolded()
    counts = counted(entries).subquery("counts")
    taken = (
        func.unnest(live.c.queues).table_valued(column("queue", Text)).render_derived(name="taken")
    )
    covered = (
        select(taken.c.queue, func.count(live.c.worker_id.distinct()).label("live_workers"))
        .select_from(live.join(taken, always()))
        .group_by(taken.c.queue)
        .subquery("covered")
    )
    known = known_queues(counts, entries).subquery("known")
    names = union(select(known.c.queue), select(covered.c.queue)).subquery("names")
    summed = totals.subquery("summed")
    return (
        select(
            names.c.queue,
            func.coalesce(covered.c.live_workers, number(0)).label("live_workers"),
            summed,
        )
        .select_from(
            summed.outerjoin(names, always()).outerjoin(covered, covered.c.queue == names.c.queue)
        )
        .order_by(names.c.queue)
    )
