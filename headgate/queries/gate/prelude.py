"""The one place where the gate waits: for policy rows that `full` found busy.

Each is its own statement of one transaction, run in this order, and `full` follows as the next: its
snapshot is then newer than the locks. Gates that wait lock buckets before partitions and both in
the order of their keys, holding nothing else, so they cannot deadlock.
"""

from functools import cache
from typing import Any

from sqlalchemy import Insert, Select, Text, any_, bindparam, collate, column, func, select
from sqlalchemy.dialects.postgresql import ARRAY, insert

from headgate.queries.literals import always, number
from headgate.tables import inflight, rate_bucket


@cache
def lock_buckets() -> Select[Any]:
    """Waits for the buckets of the classes `busy_classes`."""
    return (
        select(number(1))
        .where(rate_bucket.c.name == any_(bindparam("busy_classes", type_=ARRAY(Text))))
        .order_by(rate_bucket.c.name)
        .with_for_update()
    )


@cache
def add_partitions() -> Insert:
    """Adds the rows that ceilings lock, where `busy_queues`, `busy_partition_keys` have none.

    They come with the first lane of a partition; this is for whoever lost them.
    """
    busy = _busy_partitions()
    return (
        insert(inflight)
        .from_select(["queue", "partition_key"], select(busy.c.queue, busy.c.partition_key))
        .on_conflict_do_nothing()
    )


@cache
def lock_partitions() -> Select[Any]:
    """Waits for the partitions `busy_queues`, `busy_partition_keys`."""
    busy = _busy_partitions()
    locked = (
        select(number(1))
        .where(inflight.c.queue == busy.c.queue, inflight.c.partition_key == busy.c.partition_key)
        .with_for_update()
        .lateral("locked")
    )
    return select(number(1)).select_from(busy.join(locked, always()))


def _busy_partitions() -> Any:
    """In the order of their keys, in which they are then worked on one by one."""
    busy = (
        func.unnest(
            bindparam("busy_queues", type_=ARRAY(Text)),
            bindparam("busy_partition_keys", type_=ARRAY(Text)),
        )
        .table_valued(column("queue", Text()), column("partition_key", Text()))
        .render_derived(name="asked")
    )
    return (
        select(busy)
        .order_by(collate(busy.c.queue, "C"), collate(busy.c.partition_key, "C"))
        .offset(number(0))
        .subquery("busy")
    )
