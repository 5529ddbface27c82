"""Where the rotation stands, for a process that starts cold.

Nothing depends on it: without it a new process starts every rotation anew, which only matters when
processes are short-lived.
"""

from functools import cache
from typing import Any

from sqlalchemy import Select, Text, Update, any_, bindparam, column, func, select, update
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.types import Double

from headgate.queries.gate.parts import QUEUES
from headgate.tables import queue_state


@cache
def read_rotation() -> Select[Any]:
    """The checkpoints of the queues that have settings."""
    return select(
        queue_state.c.queue, queue_state.c.virtual_time, queue_state.c.rotation_cursor
    ).where(queue_state.c.queue == any_(QUEUES))


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
