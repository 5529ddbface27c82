"""The page of queues: what is said of each, in one statement.

What it costs grows with the queues of the page and their partitions, never with jobs: counts come
from base rows and ledger, rates from minute buckets, ages from one probe per waiting lane. Ages and
partitions are nearly all of it, so there is a page without them.
"""

from functools import cache
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    CTE,
    ColumnElement,
    Executable,
    FromClause,
    Select,
    Text,
    and_,
    bindparam,
    cast,
    func,
    null,
    or_,
    select,
    union_all,
)

from headgate.model.lifecycle import LIVE
from headgate.queries.clock import MINUTE_MS, instant, minute
from headgate.queries.counts import counted, is_cut, known_queues, unfolded
from headgate.queries.lanes import LANE, waits_in
from headgate.queries.literals import always, number, word
from headgate.queries.shapes import materialized, page_offset, page_size, total
from headgate.queries.states import is_live, is_state
from headgate.tables import (
    active_partition,
    enqueue_policy,
    job,
    partition_count,
    partition_counter,
    queue_counter,
    queue_sample,
    queue_state,
)

MAX_PARTITIONS: Final = 1_000
MAX_LANES: Final = 2_000
"""How many partitions of a queue are looked at; beyond, its quiet groups are approximate."""

_MINUTES: Final = 2
_BASE_ROWS: Final = len(LIVE) * (MAX_PARTITIONS + 1)


class _Listed(NamedTuple):
    """The queues of a page, and what everything about them is made of."""

    queue: CTE
    clock: CTE
    entries: CTE
    counts: CTE
    flow: CTE


@cache
def queue_backlogs() -> Executable:
    """A row for each queue of the page from `page_offset` on, up to `page_size`, by name: what is
    told without a look at its partitions.

    `elapsed_ms` is the time in which `arrived` and `completed` were counted: the current minute and
    the one before.
    """
    return _page(_listed(one_queue=False))


@cache
def queue_statistics(*, one_queue: bool) -> Executable:
    """The same and all the rest; with `one_queue` for `wanted_queue` alone.

    Columns that begin with `noisy_` are of the noisy partitions together, `quiet_oldest_ms` is of
    all others.
    """
    listed = _listed(one_queue=one_queue)
    known = materialized(_known_partitions(listed), "known")
    judged = materialized(_judged(known), "judged")
    grouped = _groups(judged).subquery("grouped")
    return _page(listed, grouped, enqueue_policy, queue_sample).add_columns(
        listed.clock.c.now_ms,
        func.coalesce(queue_state.c.weight, number(1)).label("weight"),
        enqueue_policy.c.max_unfinished_jobs,
        queue_sample.c.memory_bytes,
        *_columns(grouped),
    )


def _listed(*, one_queue: bool) -> _Listed:
    now_ms = select(instant().label("now_ms")).subquery("now")
    since_ms = minute(now_ms.c.now_ms) - number(MINUTE_MS)
    clock = materialized(select(now_ms.c.now_ms, since_ms.label("since_ms")), "clock")
    entries = unfolded()
    counts = materialized(counted(entries), "counts")
    names = known_queues(counts, entries).subquery("names")
    found = select(names.c.queue)
    if one_queue:
        found = found.where(names.c.queue == bindparam("wanted_queue", type_=Text))
    queue = materialized(
        found.order_by(names.c.queue).offset(page_offset()).limit(page_size()), "queue"
    )
    flow = materialized(_unfolded_flow(queue, entries, clock), "flow")
    return _Listed(queue, clock, entries, counts, flow)


def _page(listed: _Listed, *details: FromClause) -> Select[Any]:
    """What every page tells of its queues, where `details` may be asked for more."""
    queue, clock, entries, counts, flow = listed
    totals = _totals(queue, counts).subquery("totals")
    rates = _rates(queue, flow, clock).subquery("rates")
    cut = select(is_cut(entries)).subquery("cut")
    source = queue.join(clock, always()).join(cut, always())
    for detail in (totals, rates, queue_state, *details):
        source = source.outerjoin(detail, detail.c.queue == queue.c.queue)
    return (
        select(
            queue.c.queue,
            (clock.c.now_ms - clock.c.since_ms).label("elapsed_ms"),
            func.coalesce(queue_state.c.paused, word("false")).label("paused"),
            *_columns(totals),
            *_columns(rates),
            cut.c.approximate,
        )
        .select_from(source)
        .order_by(queue.c.queue)
    )


def _columns(detail: FromClause) -> list[ColumnElement[Any]]:
    return [column for column in detail.c if column.name != "queue"]


def _totals(queue: CTE, counts: CTE) -> Select[Any]:
    by_state = func.jsonb_object_agg(counts.c.state, counts.c.n)
    return (
        select(
            counts.c.queue,
            cast(by_state, Text).label("by_state"),
            total(counts.c.n, is_live(counts.c.state)).label("unfinished_jobs"),
        )
        .select_from(counts.join(queue, queue.c.queue == counts.c.queue))
        .group_by(counts.c.queue)
    )


def _unfolded_flow(queue: CTE, entries: CTE, clock: CTE) -> Select[Any]:
    """What the ledger says of the last minutes, by partition."""
    return (
        select(
            entries.c.queue,
            entries.c.partition_key,
            total(entries.c.arrived).label("arrived"),
            total(entries.c.completed).label("completed"),
        )
        .select_from(
            entries.join(queue, queue.c.queue == entries.c.queue).join(
                clock, entries.c.bucket_ms >= clock.c.since_ms
            )
        )
        .where(entries.c.arrived + entries.c.completed > number(0))
        .group_by(entries.c.queue, entries.c.partition_key)
    )


def _rates(queue: CTE, flow: CTE, clock: CTE) -> Select[Any]:
    counter = queue_counter
    folded = (
        select(counter.c.arrived, counter.c.completed)
        .where(counter.c.queue == queue.c.queue, counter.c.bucket_ms >= clock.c.since_ms)
        .lateral("folded")
    )
    flows = union_all(
        select(queue.c.queue, folded.c.arrived, folded.c.completed).select_from(
            queue.join(clock, always()).join(folded, always())
        ),
        select(flow.c.queue, flow.c.arrived, flow.c.completed),
    ).subquery("flows")
    return select(
        flows.c.queue,
        total(flows.c.arrived).label("arrived"),
        total(flows.c.completed).label("completed"),
    ).group_by(flows.c.queue)


def _known_partitions(listed: _Listed) -> Select[Any]:
    """Partitions that hold unfinished jobs or had any in the last minutes: idle ones are peers too.

    Where the base rows of a queue stop at their limit, partitions that were emptied since stay too:
    they are more than are looked at, which is all that can be told of what was left out.
    """
    queue, clock, entries, _, flow = listed
    zero, stateless = number(0), job.c.state.type
    first = (
        select(partition_count.c.partition_key, partition_count.c.state, partition_count.c.n)
        .where(partition_count.c.queue == queue.c.queue)
        .order_by(partition_count.c.partition_key, partition_count.c.state)
        .limit(number(_BASE_ROWS))
        .correlate(queue)
        .subquery("first")
    )
    base = select(first, func.count().over().label("read")).lateral("base")
    recent = (
        select(
            partition_counter.c.partition_key,
            partition_counter.c.arrived,
            partition_counter.c.completed,
        )
        .where(
            partition_counter.c.queue == queue.c.queue,
            partition_counter.c.bucket_ms >= clock.c.since_ms,
        )
        .order_by(partition_counter.c.bucket_ms.desc(), partition_counter.c.partition_key.desc())
        .limit(number(_MINUTES * (MAX_PARTITIONS + 1)))
        .lateral("recent")
    )
    rows = union_all(
        select(
            queue.c.queue,
            base.c.partition_key,
            base.c.state,
            base.c.n,
            zero.label("arrived"),
            zero.label("completed"),
            base.c.read,
        ).select_from(queue.join(base, always())),
        select(entries.c.queue, entries.c.partition_key, entries.c.state, entries.c.n, *[zero] * 3)
        .select_from(entries.join(queue, queue.c.queue == entries.c.queue))
        .where(is_live(entries.c.state)),
        select(
            queue.c.queue,
            recent.c.partition_key,
            cast(null(), stateless),
            zero,
            recent.c.arrived,
            recent.c.completed,
            zero,
        ).select_from(queue.join(clock, always()).join(recent, always())),
        select(
            flow.c.queue,
            flow.c.partition_key,
            cast(null(), stateless),
            zero,
            flow.c.arrived,
            flow.c.completed,
            zero,
        ),
    ).subquery("rows")
    read = func.max(rows.c.read)
    backlog, arrived, completed = (total(rows.c[name]) for name in ("n", "arrived", "completed"))
    return (
        select(
            rows.c.queue,
            rows.c.partition_key,
            backlog.label("backlog"),
            total(rows.c.n, is_state(rows.c.state, "running")).label("running"),
            arrived.label("arrived"),
            completed.label("completed"),
        )
        .group_by(rows.c.queue, rows.c.partition_key)
        .having(or_(backlog + arrived + completed > zero, read >= number(_BASE_ROWS)))
    )


def _judged(known: CTE) -> Select[Any]:
    """The first partitions of each queue, and which of them are noisy: those that run more than
    twice as much as their peers do on average.
    """
    place = func.row_number().over(partition_by=known.c.queue, order_by=known.c.partition_key)
    beyond = func.count().over(partition_by=known.c.queue) > number(MAX_PARTITIONS)
    placed = select(
        known,
        place.label("place"),
        beyond.label("cut"),
    ).subquery("placed")
    compared = (
        select(
            placed,
            (func.count().over(partition_by=placed.c.queue) - number(1)).label("peers"),
            func.sum(placed.c.running).over(partition_by=placed.c.queue).label("all_running"),
        )
        .where(placed.c.place <= number(MAX_PARTITIONS))
        .subquery("compared")
    )
    others = compared.c.all_running - compared.c.running
    noisy = and_(
        compared.c.running >= number(2),
        compared.c.running * compared.c.peers > others * number(2),
    )
    return select(compared, noisy.label("noisy"))


def _groups(judged: CTE) -> Select[Any]:
    """Per queue: the noisy partitions together, and the due time of what has waited longest."""
    oldest = _oldest(judged).subquery("oldest")
    noisy = judged.c.noisy
    return (
        select(
            judged.c.queue,
            func.count().filter(noisy).label("noisy_partitions"),
            total(judged.c.backlog, noisy).label("noisy_backlog"),
            total(judged.c.arrived, noisy).label("noisy_arrived"),
            total(judged.c.completed, noisy).label("noisy_completed"),
            func.min(oldest.c.due_at_ms).label("oldest_at_ms"),
            func.min(oldest.c.due_at_ms).filter(~noisy).label("quiet_oldest_at_ms"),
            func.bool_or(judged.c.cut).label("partitions_cut"),
        )
        .select_from(
            judged.outerjoin(
                oldest,
                and_(
                    oldest.c.queue == judged.c.queue,
                    oldest.c.partition_key == judged.c.partition_key,
                ),
            )
        )
        .group_by(judged.c.queue)
    )


def _oldest(judged: CTE) -> Select[Any]:
    """Per partition, the due time of what has waited longest: the least of its lanes' heads."""
    queue = select(judged.c.queue).distinct().subquery("queue")
    entry = (
        select(*(active_partition.c[name] for name in LANE))
        .where(active_partition.c.queue == queue.c.queue)
        .order_by(
            active_partition.c.queue,
            active_partition.c.sticky_worker,
            active_partition.c.priority.desc(),
            active_partition.c.partition_key,
            active_partition.c.rate_class,
        )
        .limit(number(MAX_LANES))
        .lateral("entry")
    )
    head = (
        select(job.c.scheduled_at_ms)
        .where(*waits_in(job, entry.c))
        .order_by(job.c.scheduled_at_ms, job.c.id)
        .limit(number(1))
        .lateral("head")
    )
    return (
        select(
            entry.c.queue,
            entry.c.partition_key,
            func.min(head.c.scheduled_at_ms).label("due_at_ms"),
        )
        .select_from(queue.join(entry, always()).join(head, always()))
        .group_by(entry.c.queue, entry.c.partition_key)
    )
