"""The ledger: folding what was appended into base rows and minute buckets.

A reader adds base rows and ledger rows in one statement, so a fold in between counts nothing twice.
Two folders are safe: each adds only what its own delete returned.
"""

from functools import cache
from typing import Any

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    Executable,
    Text,
    any_,
    bindparam,
    cast,
    column,
    delete,
    func,
    literal_column,
    select,
)
from sqlalchemy.dialects.postgresql import ARRAY, Insert, insert

from headgate.queries.literals import number
from headgate.queries.states import is_live
from headgate.tables import (
    ledger,
    partition_count,
    partition_counter,
    queue_count,
    queue_counter,
)


@cache
def fold_ledger() -> Executable:
    """Folds up to `batch_size` ledger rows; one row (folded, empty_queues, queues, partition_keys).

    The arrays name queues, and partitions, of which some count came to zero. Every kind of base row
    is written in the order of its key, so folders never deadlock.
    """
    entry = ledger.alias("entry")
    row_address: ColumnElement[Any] = literal_column("entry.ctid")
    picked = (
        select(row_address)
        .select_from(entry)
        .limit(bindparam("batch_size", type_=BigInteger))
        .with_for_update(skip_locked=True, of=entry)
        .scalar_subquery()
    )
    doomed: Any = ledger.alias("doomed")
    taken = (
        delete(doomed)
        .where(literal_column("doomed.ctid") == any_(func.array(picked)))
        .returning(
            doomed.c.queue,
            doomed.c.partition_key,
            doomed.c.state,
            doomed.c.n,
            doomed.c.arrived,
            doomed.c.completed,
            doomed.c.bucket_ms,
        )
        .cte("taken")
    )
    queue_key = (taken.c.queue, taken.c.state)
    partition_key = (taken.c.queue, taken.c.partition_key, taken.c.state)
    counted = taken.c.state.is_not(None)
    queue_totals = add_up(
        insert(queue_count).from_select(
            ["queue", "state", "n"],
            select(*queue_key, func.sum(taken.c.n))
            .where(counted)
            .group_by(*queue_key)
            .having(func.sum(taken.c.n) != number(0))
            .order_by(*queue_key),
        ),
        queue_count,
        "n",
    )
    by_queue = queue_totals.returning(queue_count.c.queue, queue_count.c.n).cte("by_queue")
    empty_queues = select(func.array_agg(by_queue.c.queue.distinct())).where(
        by_queue.c.n == number(0)
    )
    by_partition = add_up(
        insert(partition_count).from_select(
            ["queue", "partition_key", "state", "n"],
            select(*partition_key, func.sum(taken.c.n))
            .where(counted, is_live(taken.c.state))
            .group_by(*partition_key)
            .having(func.sum(taken.c.n) != number(0))
            .order_by(*partition_key),
        ),
        partition_count,
        "n",
    )
    totals = by_partition.returning(
        partition_count.c.queue, partition_count.c.partition_key, partition_count.c.n
    ).cte("totals")
    emptied = (
        select(totals.c.queue, totals.c.partition_key)
        .where(totals.c.n == number(0))
        .distinct()
        .subquery("emptied")
    )
    return select(
        select(func.count()).select_from(taken).scalar_subquery().label("folded"),
        func.coalesce(empty_queues.scalar_subquery(), _no_names()).label("empty_queues"),
        func.coalesce(func.array_agg(emptied.c.queue), _no_names()).label("queues"),
        func.coalesce(func.array_agg(emptied.c.partition_key), _no_names()).label("partition_keys"),
    ).add_cte(
        _add_flow(taken, queue_counter, "queue").cte("queue_flow"),
        _add_flow(taken, partition_counter, "queue", "partition_key").cte("partition_flow"),
    )


def add_up(writing: Insert, table: Any, *numbers: str) -> Insert:
    """Adds to the rows that are there already."""
    return writing.on_conflict_do_update(
        index_elements=[column.name for column in table.primary_key],
        set_={name: table.c[name] + writing.excluded[name] for name in numbers},
    )


def _add_flow(taken: CTE, table: Any, *key: str) -> Insert:
    """What arrived and was completed, per minute."""
    columns = [*(taken.c[name] for name in key), taken.c.bucket_ms]
    return add_up(
        insert(table).from_select(
            [*key, "bucket_ms", "arrived", "completed"],
            select(*columns, func.sum(taken.c.arrived), func.sum(taken.c.completed))
            .where((taken.c.arrived + taken.c.completed) > number(0))
            .group_by(*columns)
            .order_by(*columns),
        ),
        table,
        "arrived",
        "completed",
    )


@cache
def drop_empty_counts() -> Executable:
    """Deletes the rows that came to zero of the partitions in `queue_array`, `partition_array`."""
    named = (
        func.unnest(
            bindparam("queue_array", type_=ARRAY(Text)),
            bindparam("partition_array", type_=ARRAY(Text)),
        )
        .table_valued(column("queue", Text), column("partition_key", Text))
        .render_derived(name="named")
    )
    return delete(partition_count).where(
        partition_count.c.queue == named.c.queue,
        partition_count.c.partition_key == named.c.partition_key,
        partition_count.c.n == number(0),
    )


@cache
def drop_empty_queue_counts() -> Executable:
    """Deletes the rows that came to zero of the queues in `queue_array`."""
    return delete(queue_count).where(
        queue_count.c.queue == any_(bindparam("queue_array", type_=ARRAY(Text))),
        queue_count.c.n == number(0),
    )


def _no_names() -> Any:
    return cast(literal_column("'{}'"), ARRAY(Text))
