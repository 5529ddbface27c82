"""Why one job does or does not run: all that the rules ask, in one statement.

Whatever lies before the job is counted from the head of its line, as far as the bound goes: a scan
that looked for rows before the job would read its whole line when there are none.
"""

from functools import cache
from typing import Any, Final

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    Executable,
    ScalarSelect,
    Text,
    and_,
    bindparam,
    case,
    cast,
    exists,
    func,
    select,
    tuple_,
)

from headgate.queries.clock import now_ms
from headgate.queries.cluster import is_alive, live_workers_of
from headgate.queries.gate.buckets import is_passed_over, reservation
from headgate.queries.gate.walk import next_level
from headgate.queries.lanes import waits_in
from headgate.queries.literals import always, never, number, word
from headgate.queries.rate_classes import level
from headgate.queries.shapes import materialized, total
from headgate.queries.states import is_state
from headgate.tables import (
    active_partition,
    concurrency_limit,
    job,
    quarantine,
    queue_state,
    rate_bucket,
    worker,
)

MAX_AHEAD: Final = 1_000
"""How many jobs before it are looked at in its rate class, and in its partition."""

_ASKED: Final = ("id", "state", "partition_key", "priority")
_SHOWN: Final = (
    "queue",
    "sticky_worker",
    "rate_class",
    "weight",
    "scheduled_at_ms",
    "fingerprint",
)
_MAX_LEVELS: Final = 100
_MAX_LANES: Final = 100


@cache
def admission_facts(*, advice: bool) -> Executable:
    """One row with the facts of the job `wanted_id`; none when there is no such job.

    `bucket_` columns are NULL without a rate class of that name, `ceiling_` columns without a limit
    of the queue. With `advice`, what is known of the workers that could run it.
    """
    subject = materialized(
        select(*(job.c[name] for name in (*_ASKED, *_SHOWN))).where(
            job.c.ulid == bindparam("wanted_id", type_=Text)
        ),
        "subject",
    )
    now = now_ms()
    bucket, limit = rate_bucket, concurrency_limit
    reserved = reservation(bucket, now)
    found = select(
        now.label("now_ms"),
        cast(subject.c.state, Text).label("state"),
        *(subject.c[name] for name in _SHOWN),
        _is_paused(subject).label("queue_paused"),
        exists(select(number(1)).where(quarantine.c.fingerprint == subject.c.fingerprint)).label(
            "quarantined"
        ),
        level(bucket, now).label("bucket_level"),
        *(
            bucket.c[name].label(f"bucket_{name}")
            for name in ("burst", "limit_per_window", "window_ms", "paused")
        ),
        reserved.c.job_id.label("bucket_reserved_for"),
        func.coalesce(reserved.c.cost, number(0)).label("bucket_reserved_cost"),
        func.coalesce(is_passed_over(reserved, subject), never()).label("bucket_passed_over"),
        _tokens_ahead(subject, bucket.c.burst).label("tokens_ahead"),
        limit.c.max_concurrent.label("ceiling_max_concurrent"),
        limit.c.on_saturated.label("ceiling_on_saturated"),
        _running(subject, limit.c.max_concurrent).label("ceiling_inflight"),
        _position(subject).label("position"),
    )
    source: Any = subject.outerjoin(
        bucket, and_(bucket.c.name == subject.c.rate_class, subject.c.rate_class != word(""))
    )
    source = source.outerjoin(reserved, always()).outerjoin(limit, limit.c.queue == subject.c.queue)
    if advice:
        pinned = worker.alias("pinned")
        found = found.add_columns(
            live_workers_of(subject.c.queue).label("live_workers"),
            pinned.c.heartbeat_at_ms.label("sticky_worker_seen_at_ms"),
            func.coalesce(is_alive(pinned), word("false")).label("sticky_worker_live"),
        )
        source = source.outerjoin(pinned, pinned.c.worker_id == subject.c.sticky_worker)
    return found.select_from(source)


def _is_paused(subject: CTE) -> ColumnElement[bool]:
    return exists(
        select(number(1)).where(queue_state.c.queue == subject.c.queue, queue_state.c.paused)
    )


def _is_waiting(subject: CTE) -> ColumnElement[bool]:
    return is_state(subject.c.state, "available")


def _place(row: Any) -> Any:
    """The order of a line, smallest first."""
    return tuple_(number(0) - cast(row.c.priority, BigInteger), row.c.scheduled_at_ms, row.c.id)


def _tokens_ahead(subject: CTE, burst: ColumnElement[int]) -> ColumnElement[int]:
    """What the jobs before it in its queue and rate class cost, each at most the burst."""
    line = job.alias("line")
    head = (
        select(line.c.id, line.c.priority, line.c.scheduled_at_ms, line.c.weight)
        .where(
            line.c.rate_class == subject.c.rate_class,
            line.c.queue == subject.c.queue,
            is_state(line.c.state, "available"),
            line.c.rate_class != word(""),
        )
        .order_by(line.c.priority.desc(), line.c.scheduled_at_ms, line.c.id)
        .limit(number(MAX_AHEAD))
        .correlate(subject)
        .lateral("head")
    )
    cost = func.least(cast(head.c.weight, BigInteger), burst)
    ahead = (
        select(total(cost))
        .select_from(head)
        .where(_place(head) < _place(subject))
        .correlate(subject, rate_bucket)
        .scalar_subquery()
    )
    return case((_is_waiting(subject), ahead), else_=number(0))


def _running(subject: CTE, ceiling: ColumnElement[int]) -> ScalarSelect[int]:
    """How many jobs of its partition run; the ceiling or more is all that matters."""
    running = job.alias("running")
    some = (
        select(running.c.id)
        .where(
            ceiling.is_not(None),
            running.c.queue == subject.c.queue,
            running.c.partition_key == subject.c.partition_key,
            is_state(running.c.state, "running"),
        )
        .order_by(running.c.claimed_at_ms, running.c.id)
        .limit(func.greatest(ceiling, number(MAX_AHEAD)))
        .correlate(subject, concurrency_limit)
        .lateral("some")
    )
    return (
        select(func.count(some.c.id))
        .select_from(some)
        .correlate(subject, concurrency_limit)
        .scalar_subquery()
    )


def _position(subject: CTE) -> ScalarSelect[int]:
    """How many jobs of its partition come before it, in the lanes that are pinned as it is.

    The registry knows the lanes; each is an index range of its own.
    """
    lane = _lanes_ahead(subject)
    waiting = job.alias("waiting")
    head = (
        select(waiting.c.id, waiting.c.scheduled_at_ms, waiting.c.priority)
        .where(
            *waits_in(
                waiting,
                {**subject.c, "priority": lane.c.priority, "rate_class": lane.c.rate_class},
            )
        )
        .order_by(waiting.c.scheduled_at_ms, waiting.c.id)
        .limit(number(MAX_AHEAD))
        .lateral("head")
    )
    ahead = (
        select(head.c.id)
        .select_from(subject.join(lane, always()).join(head, always()))
        .where(_place(head) < _place(subject))
        .limit(number(MAX_AHEAD))
        .subquery("ahead")
    )
    return select(func.count()).select_from(ahead).scalar_subquery()


def _lanes_ahead(subject: CTE) -> CTE:
    """The lanes (priority, rate_class) of its partition, from the highest level down to its own."""
    first = next_level(subject.c.queue, subject.c.sticky_worker, None).lateral("first")
    found = (
        select(first.c.priority, number(1).label("depth"))
        .select_from(subject.join(first, always()))
        .where(_is_waiting(subject))
        .cte("found", recursive=True)
    )
    lower = next_level(subject.c.queue, subject.c.sticky_worker, found.c.priority).lateral("lower")
    found = found.union_all(
        select(lower.c.priority, found.c.depth + number(1))
        .select_from(found.join(subject, always()).join(lower, always()))
        .where(found.c.depth < number(_MAX_LEVELS), lower.c.priority >= subject.c.priority)
    )
    entry = (
        select(active_partition.c.rate_class)
        .where(
            active_partition.c.queue == subject.c.queue,
            active_partition.c.sticky_worker == subject.c.sticky_worker,
            active_partition.c.priority == found.c.priority,
            active_partition.c.partition_key == subject.c.partition_key,
        )
        .order_by(active_partition.c.rate_class)
        .limit(number(_MAX_LANES))
        .lateral("entry")
    )
    return materialized(
        select(found.c.priority, entry.c.rate_class)
        .select_from(subject.join(found, always()).join(entry, always()))
        .where(found.c.priority >= subject.c.priority)
        .limit(number(_MAX_LANES)),
        "lane",
    )
