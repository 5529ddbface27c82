"""What operators set on a queue: its weight, a pause, the limit on its intake."""

from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Executable,
    Integer,
    Text,
    Update,
    bindparam,
    delete,
    null,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from headgate.queries.literals import always, never, number
from headgate.tables import enqueue_policy, queue_count, queue_sample, queue_state


def _queue() -> Any:
    return bindparam("wanted_queue", type_=Text)


def _set(table: Any, **values: Any) -> Executable:
    """Writes the row of the queue, which may be new, and leaves its other columns alone."""
    writing = insert(table).values(queue=_queue(), **values)
    return writing.on_conflict_do_update(
        index_elements=[table.c.queue], set_={name: writing.excluded[name] for name in values}
    )


@cache
def set_weight() -> Executable:
    """Gives `wanted_queue` the share `new_weight`. Nothing else is to be adjusted: the gate keeps
    its race in virtual time, in which a weight counts from now on.
    """
    return _set(queue_state, weight=bindparam("new_weight", type_=Integer))


@cache
def set_paused(*, paused: bool) -> Executable:
    """Stops or goes on with admission from `wanted_queue`."""
    return _set(queue_state, paused=always() if paused else never())


@cache
def set_enqueue_limit() -> Executable:
    """Refuses what would bring `wanted_queue` over `new_limit` unfinished jobs."""
    return _set(enqueue_policy, max_unfinished_jobs=bindparam("new_limit", type_=BigInteger))


@cache
def clear_enqueue_limit() -> Update:
    """Takes the limit back. The row stays, as producers wait for it and read it when they go on."""
    return (
        update(enqueue_policy)
        .where(enqueue_policy.c.queue == _queue())
        .values(max_unfinished_jobs=null())
    )


@cache
def forget_queue() -> Executable:
    """Deletes all that was said of `wanted_queue` and the counts that came to nothing."""
    gone = [
        delete(table).where(table.c.queue == _queue()).cte(f"of_{table.name}")
        for table in (queue_state, enqueue_policy, queue_sample)
    ]
    empty = (
        delete(queue_count)
        .where(queue_count.c.queue == _queue(), queue_count.c.n == number(0))
        .cte("empty")
    )
    return select(number(1)).add_cte(*gone, empty)
