"""What holds the waiting jobs of a queue, by the rules of the gate.

Counts come from base rows and ledger. The reasons of available jobs are asked of the oldest ones,
as many as the bound allows.
"""

from functools import cache
from typing import Any, Final

from sqlalchemy import (
    CTE,
    ColumnElement,
    Executable,
    Select,
    Text,
    and_,
    bindparam,
    case,
    exists,
    func,
    not_,
    or_,
    select,
    tuple_,
)

from headgate.queries.clock import now_ms
from headgate.queries.cluster import is_alive, live_workers_of
from headgate.queries.counts import counted, is_cut, unfolded
from headgate.queries.gate.buckets import is_passed_over, reservation
from headgate.queries.lanes import LANE
from headgate.queries.literals import always, number, word
from headgate.queries.rate_classes import level
from headgate.queries.shapes import materialized, total
from headgate.queries.states import is_state, state_value
from headgate.tables import concurrency_limit, job, quarantine, queue_state, rate_bucket, worker

WINDOW: Final = 2_000
"""How many available jobs of the queue are asked for their reason."""


@cache
def blocked_jobs() -> Executable:
    """One row for `wanted_queue`: how many jobs wait for their time (`due_later`) or for a worker
    (`available`), whether the queue is paused, how many of the `examined` available jobs each
    reason holds, how many workers there are.
    """
    queue = bindparam("wanted_queue", type_=Text)
    entries = unfolded()
    counts = counted(entries, queue).subquery("counts")
    amounts = select(
        total(counts.c.n, is_state(counts.c.state, "scheduled", "retryable")).label("due_later"),
        total(counts.c.n, is_state(counts.c.state, "available")).label("available"),
    ).subquery("amounts")
    paused = exists(select(number(1)).where(queue_state.c.queue == queue, queue_state.c.paused))
    oldest = materialized(_oldest(queue).where(not_(paused)), "oldest")
    reason = _reasons(queue, oldest).subquery("reason")
    names = ("quarantine", "rate_class", "concurrency_limit", "sticky_worker")
    held = select(
        func.count().label("examined"),
        *(func.count().filter(reason.c.name == word(name)).label(name) for name in names),
    ).select_from(reason)
    held_row = held.subquery("held")
    return select(
        amounts,
        held_row,
        paused.label("paused"),
        live_workers_of(queue).label("live_workers"),
        is_cut(entries),
    ).select_from(amounts.join(held_row, always()))


def _oldest(queue: ColumnElement[str]) -> Select[Any]:
    available = state_value("available")
    columns = ("fingerprint", "weight", *LANE)
    return (
        select(*(job.c[name] for name in columns))
        .where(
            job.c.queue == queue,
            tuple_(job.c.state, job.c.id) > tuple_(available, number(0)),
            job.c.state <= available,
        )
        .order_by(job.c.state, job.c.id)
        .limit(number(WINDOW))
    )


def _reasons(queue: ColumnElement[str], oldest: CTE) -> Select[Any]:
    """For each of the oldest jobs the `name` of the first reason against it, or NULL."""
    buckets = _buckets(oldest).subquery("buckets")
    full = _full_partitions(queue, oldest).subquery("full_partitions")
    quarantined = exists(select(number(1)).where(quarantine.c.fingerprint == oldest.c.fingerprint))
    needed = func.greatest(func.least(oldest.c.weight, buckets.c.burst), buckets.c.cost)
    short = or_(buckets.c.paused, buckets.c.level < needed, is_passed_over(buckets, oldest))
    alone = and_(
        oldest.c.sticky_worker != word(""),
        ~exists(select(number(1)).where(worker.c.worker_id == oldest.c.sticky_worker, is_alive())),
    )
    first = case(
        (quarantined, word("quarantine")),
        (short, word("rate_class")),
        (full.c.partition_key.is_not(None), word("concurrency_limit")),
        (alone, word("sticky_worker")),
    )
    return select(first.label("name")).select_from(
        oldest.outerjoin(buckets, buckets.c.name == oldest.c.rate_class).outerjoin(
            full, full.c.partition_key == oldest.c.partition_key
        )
    )


def _buckets(oldest: CTE) -> Select[Any]:
    named = (
        select(oldest.c.rate_class)
        .where(oldest.c.rate_class != word(""))
        .distinct()
        .subquery("named")
    )
    now = now_ms()
    reserved = reservation(rate_bucket, now)
    return select(
        rate_bucket.c.name,
        rate_bucket.c.burst,
        rate_bucket.c.paused,
        level(rate_bucket, now).label("level"),
        *(column for column in reserved.c if column.name != "job_id"),
    ).select_from(
        named.join(rate_bucket, rate_bucket.c.name == named.c.rate_class).outerjoin(
            reserved, always()
        )
    )


def _full_partitions(queue: ColumnElement[str], oldest: CTE) -> Select[Any]:
    """The partitions that run as many jobs as the limit of the queue allows, unless a newcomer
    may displace one of them.
    """
    partition = select(oldest.c.partition_key).distinct().subquery("partition")
    limit = (
        select(concurrency_limit.c.max_concurrent)
        .where(
            concurrency_limit.c.queue == queue,
            concurrency_limit.c.on_saturated != word("cancel_running"),
        )
        .subquery("ceiling")
    )
    running = (
        select(job.c.id)
        .where(
            job.c.queue == queue,
            job.c.partition_key == partition.c.partition_key,
            is_state(job.c.state, "running"),
        )
        .order_by(job.c.claimed_at_ms, job.c.id)
        .limit(limit.c.max_concurrent)
        .correlate(partition, limit)
        .lateral("running")
    )
    count = (
        select(func.count(running.c.id).label("jobs"))
        .select_from(running)
        .correlate(partition, limit)
        .lateral("count")
    )
    return select(partition.c.partition_key).select_from(
        partition.join(limit, always()).join(count, count.c.jobs >= limit.c.max_concurrent)
    )
