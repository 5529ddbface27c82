"""The archive of evicted jobs, by queue: its policies, its pages, and what leaves it.

Evictions write to it; see `headgate.queries.retention`.
"""

from functools import cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Delete,
    Executable,
    Select,
    Text,
    bindparam,
    cast,
    delete,
    func,
    select,
    tuple_,
)
from sqlalchemy.dialects.postgresql import insert

from headgate.queries.clock import now_ms
from headgate.queries.literals import number
from headgate.queries.shapes import materialized, page_offset, page_size
from headgate.tables import archive_policy, job_archive

_SIZE: Final[Any] = bindparam("batch_size", type_=BigInteger)
_QUEUE: Final[Any] = bindparam("wanted_queue", type_=Text)


@cache
def prune_archive() -> Executable:
    """Deletes up to `batch_size` archived jobs that were archived long enough; one row (n)."""
    lapses = job_archive.c.evicted_at_ms + job_archive.c.archive_retention_ms
    picked = materialized(
        select(job_archive.c.evicted_at_ms, job_archive.c.ulid)
        .where(lapses <= now_ms())
        .order_by(lapses)
        .limit(_SIZE)
        .with_for_update(skip_locked=True),
        "picked",
    )
    pruned = (
        delete(job_archive)
        .where(
            job_archive.c.evicted_at_ms == picked.c.evicted_at_ms,
            job_archive.c.ulid == picked.c.ulid,
        )
        .returning(number(1))
        .cte("pruned")
    )
    return select(func.count().label("n")).select_from(pruned)


@cache
def set_archive_policy() -> Executable:
    """Keeps what is evicted of `wanted_queue` for `new_retention_ms` from now on."""
    writing = insert(archive_policy).values(
        queue=_QUEUE, archive_retention_ms=bindparam("new_retention_ms", type_=BigInteger)
    )
    return writing.on_conflict_do_update(
        index_elements=[archive_policy.c.queue],
        set_={"archive_retention_ms": writing.excluded.archive_retention_ms},
    )


@cache
def clear_archive_policy() -> Delete:
    return delete(archive_policy).where(archive_policy.c.queue == _QUEUE)


@cache
def archive_policies() -> Select[Any]:
    """A page of the policies, by queue."""
    return (
        select(archive_policy.c.queue, archive_policy.c.archive_retention_ms)
        .order_by(archive_policy.c.queue)
        .limit(page_size())
        .offset(page_offset())
    )


@cache
def archived_jobs() -> Select[Any]:
    """A page of the archive of `wanted_queue` before (before_ms, before_ulid), newest first."""
    place = tuple_(job_archive.c.queue, job_archive.c.evicted_at_ms, job_archive.c.ulid)
    before_ms = bindparam("before_ms", type_=BigInteger)
    before = tuple_(_QUEUE, before_ms, bindparam("before_ulid", type_=Text))
    return (
        select(
            job_archive.c.ulid,
            job_archive.c.kind,
            job_archive.c.queue,
            job_archive.c.state,
            job_archive.c.fingerprint,
            job_archive.c.attempt,
            job_archive.c.crash_attempt,
            cast(job_archive.c.errors, Text).label("errors"),
            job_archive.c.finalized_at_ms,
            job_archive.c.evicted_at_ms,
            job_archive.c.archive_retention_ms,
        )
        # Equality on the queue would let the planner walk the archive of all queues instead.
        # The time is implied, and spares the months after it.
        .where(
            place < before, job_archive.c.queue >= _QUEUE, job_archive.c.evicted_at_ms <= before_ms
        )
        .order_by(
            job_archive.c.queue.desc(),
            job_archive.c.evicted_at_ms.desc(),
            job_archive.c.ulid.desc(),
        )
        .limit(page_size())
    )
