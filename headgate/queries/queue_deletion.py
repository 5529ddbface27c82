"""Deleting a queue: its policy row is the lock, and an intake limit of zero keeps it from growing.

Producers that find a limit wait for that row, so whoever holds it may count on what it sees.
"""

from functools import cache
from typing import Any, Final

from sqlalchemy import BigInteger, Select, Text, Update, bindparam, select, update
from sqlalchemy.dialects.postgresql import insert

from headgate.model.operation import DELETE_QUEUE
from headgate.queries.literals import number, word
from headgate.tables import (
    enqueue_policy,
    job,
    operation,
)

_QUEUE: Final[Any] = bindparam("queue_name", type_=Text)


@cache
def lock_intake() -> Any:
    """Locks the intake limit of the queue, which gets a row for it; a row (max_unfinished_jobs)."""
    writing = insert(enqueue_policy).values(queue=_QUEUE)
    return writing.on_conflict_do_update(
        index_elements=[enqueue_policy.c.queue],
        set_={"max_unfinished_jobs": enqueue_policy.c.max_unfinished_jobs},
    ).returning(enqueue_policy.c.max_unfinished_jobs)


@cache
def freeze_intake() -> Update:
    """Lets nothing into the queue any more."""
    return (
        update(enqueue_policy)
        .where(enqueue_policy.c.queue == _QUEUE)
        .values(max_unfinished_jobs=number(0))
    )


@cache
def thaw_intake() -> Update:
    """Gives the queue the limit `intake_limit` back, unless somebody set another one meanwhile."""
    return (
        update(enqueue_policy)
        .where(enqueue_policy.c.queue == _QUEUE, enqueue_policy.c.max_unfinished_jobs == number(0))
        .values(max_unfinished_jobs=bindparam("intake_limit", type_=BigInteger))
    )


@cache
def open_deletion() -> Select[Any]:
    """The unfinished operation that deletes the queue; a row (id) or none."""
    return (
        select(operation.c.id)
        .where(
            operation.c.status.in_([word("pending"), word("running")]),
            operation.c.action == word(DELETE_QUEUE),
            operation.c.selector["queue"].astext == _QUEUE,
        )
        .order_by(operation.c.created_at_ms, operation.c.id)
        .limit(number(1))
    )


@cache
def any_job() -> Select[Any]:
    """A row when the queue has a job, in whatever state."""
    return (
        select(job.c.id)
        .where(job.c.queue == _QUEUE)
        .order_by(job.c.state, job.c.id)
        .limit(number(1))
    )
