"""Recounting: what is counted, what there is, and adding the difference to the base rows.

Whatever changes jobs or folds the ledger changes both sides alike, in one transaction. So the
difference that one snapshot shows stays the difference, and may be added at any later time.
"""

from functools import cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Executable,
    Select,
    Text,
    bindparam,
    cast,
    column,
    func,
    null,
    select,
    tuple_,
)
from sqlalchemy.dialects.postgresql import ARRAY, Insert, insert

from headgate.queries.ledger import add_up
from headgate.queries.literals import number
from headgate.tables import job, job_state, ledger, partition_count, queue_count

WINDOW: Final = 50_000
"""How many rows one statement looks at."""

_LOCK: Final = 7_246_113


@cache
def lock_recount() -> Select[Any]:
    """Waits until no other recount runs; held until the end of the transaction."""
    return select(func.pg_advisory_xact_lock(number(_LOCK)))


@cache
def count_window() -> Executable:
    """The jobs of the next window behind the row `after_id`: rows (queue, partition_key, state, n,
    last_id).
    """
    window = (
        select(job.c.id, job.c.queue, job.c.partition_key, job.c.state)
        .where(job.c.id > bindparam("after_id", type_=BigInteger))
        .order_by(job.c.id)
        .limit(number(WINDOW))
        .subquery("window")
    )
    key = (window.c.queue, window.c.partition_key, window.c.state)
    return select(
        window.c.queue,
        window.c.partition_key,
        cast(window.c.state, Text).label("state"),
        func.count().label("n"),
        func.max(window.c.id).label("last_id"),
    ).group_by(*key)


@cache
def queue_counts() -> Executable:
    """What is counted per queue: rows (queue, state, n)."""
    return select(
        queue_count.c.queue, cast(queue_count.c.state, Text).label("state"), queue_count.c.n
    )


@cache
def partition_counts() -> Executable:
    """The next window of what is counted per partition, behind `after_queue`,
    `after_partition_key`, `after_state`: rows (queue, partition_key, state, n).
    """
    count = partition_count
    place = tuple_(count.c.queue, count.c.partition_key, count.c.state)
    after = tuple_(
        bindparam("after_queue", type_=Text),
        bindparam("after_partition_key", type_=Text),
        cast(bindparam("after_state", type_=Text), job_state),
    )
    return (
        select(
            count.c.queue,
            count.c.partition_key,
            cast(count.c.state, Text).label("state"),
            count.c.n,
        )
        .where(place > after)
        .order_by(count.c.queue, count.c.partition_key, count.c.state)
        .limit(number(WINDOW))
    )


@cache
def unfolded_counts() -> Executable:
    """What the ledger adds: rows (queue, partition_key, state, n)."""
    key = (ledger.c.queue, ledger.c.partition_key, ledger.c.state)
    return (
        select(
            ledger.c.queue,
            ledger.c.partition_key,
            cast(ledger.c.state, Text).label("state"),
            cast(func.sum(ledger.c.n), BigInteger).label("n"),
        )
        .where(ledger.c.state.is_not(null()))
        .group_by(*key)
    )


@cache
def correct_queues() -> Insert:
    """Adds `n_array` to the counts of `queue_array`, `state_array`, in the order of their key."""
    given = _given("queue", "state")
    return _correcting(queue_count, given)


@cache
def correct_partitions() -> Insert:
    """Adds `n_array` to the counts of `queue_array`, `partition_key_array`, `state_array`."""
    given = _given("queue", "partition_key", "state")
    return _correcting(partition_count, given)


def _given(*names: str) -> Any:
    arrays = [bindparam(f"{name}_array", type_=ARRAY(Text)) for name in names]
    return (
        func.unnest(*arrays, bindparam("n_array", type_=ARRAY(BigInteger)))
        .table_valued(*(column(name, Text()) for name in names), column("n", BigInteger()))
        .render_derived(name="given")
    )


def _correcting(table: Any, given: Any) -> Insert:
    names = [each.name for each in table.primary_key]
    key = [cast(given.c[name], job_state) if name == "state" else given.c[name] for name in names]
    return add_up(insert(table).from_select([*names, "n"], select(*key, given.c.n)), table, "n")
