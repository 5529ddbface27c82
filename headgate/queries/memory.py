"""How much the jobs of a queue weigh: a sample of the newest ones."""

from functools import cache, reduce
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Executable,
    Integer,
    bindparam,
    cast,
    func,
    select,
    tuple_,
)
from sqlalchemy.dialects.postgresql import insert

from headgate.model.lifecycle import State
from headgate.model.policy import MAX_INT64
from headgate.queries.clock import instant
from headgate.queries.counts import counted, unfolded
from headgate.queries.literals import always, number
from headgate.queries.shapes import materialized, total
from headgate.queries.states import each_state
from headgate.tables import job, queue_sample

MAX_QUEUES: Final = 200
"""How many queues one sample takes in, those first whose last sample is the oldest."""

MAX_JOBS: Final = 1_000
"""How many jobs of a queue are weighed at most."""

# Columns without a fixed width. Where a value is stored apart, its size is known without it.
_VARIABLE: Final = (
    *("payload", "headers", "errors", "checkpoint", "cp_cursor", "result_bytes", "output_bytes"),
    *("progress_message", "unique_key", "ulid", "kind", "queue", "partition_key", "rate_class"),
    *("fingerprint", "lease_id", "claimed_by", "periodic_schedule_id", "sticky_worker"),
)
_FIXED_BYTES: Final = 24 + sum(
    8 if isinstance(column.type, BigInteger) else 4
    for column in job.columns
    if column.name not in _VARIABLE
)


@cache
def sample_memory() -> Executable:
    """Weighs the newest `sample_size` jobs of each queue and keeps the sums; a row for each queue.

    Nothing that is stored apart from its row is read for it.
    """
    entries = unfolded()
    counts = counted(entries).subquery("counts")
    names = select(counts.c.queue).distinct().subquery("names")
    last_ms = func.coalesce(queue_sample.c.sampled_at_ms, number(0))
    queue = materialized(
        select(names.c.queue)
        .select_from(names.outerjoin(queue_sample, queue_sample.c.queue == names.c.queue))
        .order_by(last_ms, names.c.queue)
        .limit(number(MAX_QUEUES)),
        "queue",
    )
    size: Any = bindparam("sample_size", type_=Integer)
    state = each_state(State)
    ids = (
        select(job.c.id)
        .where(
            job.c.queue == queue.c.queue,
            tuple_(job.c.state, job.c.id) < tuple_(state.c.state, number(MAX_INT64)),
            job.c.state >= state.c.state,
        )
        .order_by(job.c.state.desc(), job.c.id.desc())
        .limit(size)
        .correlate(queue, state)
        .lateral("ids")
    )
    newest = (
        select(ids.c.id)
        .select_from(state.join(ids, always()))
        .order_by(ids.c.id.desc())
        .limit(size)
        .correlate(queue)
        .lateral("newest")
    )
    row = job.alias("weighed")
    weights = reduce(
        lambda left, right: left + right,
        (func.coalesce(func.pg_column_size(row.c[name]), number(0)) for name in _VARIABLE),
        number(_FIXED_BYTES),
    )
    weighed = select(weights.label("bytes")).where(row.c.id == newest.c.id).lateral("weight")
    sums = (
        select(
            queue.c.queue,
            total(weighed.c.bytes).label("memory_bytes"),
            cast(func.count(weighed.c.bytes), Integer).label("sampled_jobs"),
            instant().label("sampled_at_ms"),
        )
        .select_from(queue.outerjoin(newest, always()).outerjoin(weighed, always()))
        .group_by(queue.c.queue)
        .order_by(queue.c.queue)
    )
    writing = insert(queue_sample).from_select(
        ["queue", "memory_bytes", "sampled_jobs", "sampled_at_ms"], sums
    )
    return writing.on_conflict_do_update(
        index_elements=[queue_sample.c.queue],
        set_={
            name: writing.excluded[name]
            for name in ("memory_bytes", "sampled_jobs", "sampled_at_ms")
        },
    ).returning(queue_sample.c.queue)
