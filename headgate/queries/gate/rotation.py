"""Where the rotation stands, for a process that starts cold.

Nothing depends on it: without it a new process begins somewhere, which only matters when processes
are short-lived.
"""

from functools import cache
from typing import Any

from sqlalchemy import Select, Text, Update, any_, bindparam, column, func, select, update
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.types import Double

from headgate.queries.gate.parts import QUEUES
from headgate.queries.gate.walk import RING, next_level
from headgate.queries.literals import always, number, word
from headgate.tables import active_partition, queue_state


@cache
def read_rotation() -> Select[Any]:
    """The checkpoints of the queues that have settings."""
    return select(
        queue_state.c.queue, queue_state.c.virtual_time, queue_state.c.rotation_cursor
    ).where(queue_state.c.queue == any_(QUEUES))


@cache
def any_places() -> Select[Any]:
    """Some lane of the highest level of each queue, by `chance`: (queue, priority, partition_key).

    Processes that start together would otherwise walk in step, and each partition be served by all
    of them in a row.
    """
    asked = func.unnest(QUEUES).table_valued(column("queue", Text())).render_derived(name="asked")
    top = next_level(asked.c.queue, word(""), None).lateral("top")
    entry = active_partition.alias()
    ring = (
        select(entry.c.partition_key)
        .where(
            entry.c.queue == asked.c.queue,
            entry.c.sticky_worker == word(""),
            entry.c.priority == top.c.priority,
        )
        .order_by(entry.c.partition_key, entry.c.rate_class)
        .limit(number(RING))
        .lateral("ring")
    )
    place = func.row_number().over(partition_by=asked.c.queue, order_by=ring.c.partition_key)
    lanes = func.count().over(partition_by=asked.c.queue)
    numbered = (
        select(
            *(asked.c.queue, top.c.priority, ring.c.partition_key),
            place.label("place"),
            func.ceil(lanes * bindparam("chance", type_=Double)).label("chosen"),
        )
        .select_from(asked.join(top, always()).join(ring, always()))
        .subquery("numbered")
    )
    return select(numbered.c.queue, numbered.c.priority, numbered.c.partition_key).where(
        numbered.c.place == numbered.c.chosen
    )


@cache
def write_rotation() -> Update:
    """Leaves a checkpoint for the queues that have settings and are not being changed just now."""
    stand = (
        func.unnest(
            QUEUES,
            bindparam("virtual_times", type_=ARRAY(Double)),
            bindparam("rotation_cursors", type_=ARRAY(Text)),
        )
        .table_valued(
            column("queue", Text()), column("virtual_time", Double()), column("cursor", Text())
        )
        .render_derived(name="stand")
    )
    free = (
        select(queue_state.c.queue)
        .where(queue_state.c.queue == any_(QUEUES))
        .with_for_update(skip_locked=True, key_share=True)
    )
    return (
        update(queue_state)
        .where(queue_state.c.queue == stand.c.queue, queue_state.c.queue.in_(free))
        .values(virtual_time=stand.c.virtual_time, rotation_cursor=stand.c.cursor)
    )
