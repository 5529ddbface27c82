"""What goes when its time is over: jobs and records of all kinds.

Every statement takes a bounded batch, oldest first, from an index that has nothing else at its
head, and passes over what somebody holds.
"""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Delete,
    Executable,
    Select,
    Table,
    Text,
    any_,
    bindparam,
    cast,
    delete,
    func,
    literal_column,
    not_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from headgate.queries.clock import HOUR_MS, now_ms
from headgate.queries.literals import always, number, word
from headgate.queries.shapes import materialized, named_rows, not_passed_over, total
from headgate.queries.states import is_state
from headgate.tables import (
    archive_policy,
    audit,
    effect,
    enqueue_key,
    idempotency,
    job,
    job_archive,
    operation,
    partition_counter,
    queue_counter,
    schedule_event,
    worker,
)

_SIZE: Final[Any] = bindparam("batch_size", type_=BigInteger)
_KEPT_MS: Final[Any] = bindparam("kept_ms", type_=BigInteger)
_RETAINED_UNTIL: Final[ColumnElement[int]] = job.c.finalized_at_ms + job.c.retention_ms

_COPIED: Final = (
    "finalized_at_ms",
    "ulid",
    "kind",
    "queue",
    "fingerprint",
    "attempt",
    "crash_attempt",
    "payload",
    "errors",
)


class Record(NamedTuple):
    """Rows that are deleted some time after `ended`; `over` tells which of them have ended."""

    table: Table
    ended: Column[int]
    over: ColumnElement[bool] = always()


RECORDS: Final[Mapping[str, Record]] = MappingProxyType(
    {
        "queue_counters": Record(queue_counter, queue_counter.c.bucket_ms),
        "partition_minutes": Record(partition_counter, partition_counter.c.bucket_ms),
        "operations": Record(
            operation,
            operation.c.finished_at_ms,
            operation.c.status.in_([word("completed"), word("failed"), word("cancelled")]),
        ),
        # No index: beats would pay for it, and there are as many rows as workers in a day.
        "workers": Record(worker, worker.c.heartbeat_at_ms),
        "schedule_events": Record(
            schedule_event,
            schedule_event.c.orphaned_at_ms,
            schedule_event.c.orphaned_at_ms.is_not(None),
        ),
        "effects": Record(effect, effect.c.at_ms),
        "idempotency": Record(idempotency, idempotency.c.recorded_at_ms),
        "enqueue_keys": Record(enqueue_key, enqueue_key.c.recorded_at_ms),
        "audit": Record(audit, audit.c.at_ms),
    }
)
"""What `prune` deletes, by name."""


@cache
def evict_retained(*, named: bool = False) -> Executable:
    """Deletes up to `batch_size` jobs whose own retention is over; a row (ulid, kind, queue, state,
    archived) for each. Those of a queue with an archive policy are copied into the archive, those
    of `passed_over` stay. With `named`, of the rows `row_id_array` those whose time is over.
    """
    return _evict(_retained().where(named_rows()) if named else retained_jobs())


@cache
def retained_jobs() -> Select[Any]:
    """The rows (id) that `evict_retained` would take, longest over first."""
    return _oldest(_retained(), _RETAINED_UNTIL)


@cache
def evict_dead_letters(*, named: bool = False) -> Executable:
    """The same for jobs without a retention of their own that ended otherwise than in success,
    `kept_ms` ago.
    """
    return _evict(_dead_letters().where(named_rows()) if named else dead_letters())


@cache
def dead_letters() -> Select[Any]:
    """The rows (id) that `evict_dead_letters` would take, longest over first."""
    return _oldest(_dead_letters(), job.c.finalized_at_ms, job.c.id)


def _retained() -> Select[Any]:
    return select(job.c.id).where(
        is_state(job.c.state, "completed", "archived", "cancelled", "undecodable"),
        job.c.retention_ms > number(0),
        now_ms() >= _RETAINED_UNTIL,
    )


def _dead_letters() -> Select[Any]:
    return select(job.c.id).where(
        is_state(job.c.state, "archived", "cancelled", "undecodable"),
        job.c.retention_ms == number(0),
        job.c.finalized_at_ms <= now_ms() - _KEPT_MS,
    )


def _oldest(over: Select[Any], *order: ColumnElement[Any]) -> Select[Any]:
    return over.where(not_passed_over()).order_by(*order).limit(_SIZE)


def _evict(due: Select[Any]) -> Executable:
    clock = materialized(select(now_ms().label("now_ms")), "clock")
    now = select(clock.c.now_ms).scalar_subquery()
    picked = materialized(due.with_for_update(skip_locked=True), "picked")
    chosen = job.c.id == any_(func.array(select(picked.c.id).scalar_subquery()))
    # Such a key outlives its job, so the job waits for the end of the window.
    holds_key = func.coalesce(job.c.unique_expires_at_ms > now, literal_column("false"))
    postponed = (
        update(job)
        .where(chosen, holds_key)
        .values(retention_ms=job.c.unique_expires_at_ms - job.c.finalized_at_ms)
        .cte("postponed")
    )
    gone = (
        delete(job)
        .where(chosen, not_(holds_key))
        .returning(*(job.c[name] for name in _COPIED), cast(job.c.state, Text).label("state"))
        .cte("gone")
    )
    copied = (
        insert(job_archive)
        .from_select(
            [*_COPIED, "state", "evicted_at_ms", "archive_retention_ms"],
            select(
                *(gone.c[name] for name in _COPIED),
                gone.c.state,
                now,
                archive_policy.c.archive_retention_ms,
            ).join_from(gone, archive_policy, archive_policy.c.queue == gone.c.queue),
        )
        .cte("copied")
    )
    return (
        select(
            gone.c.ulid,
            gone.c.kind,
            gone.c.queue,
            gone.c.state,
            archive_policy.c.queue.is_not(None).label("archived"),
        )
        .select_from(gone.outerjoin(archive_policy, archive_policy.c.queue == gone.c.queue))
        .add_cte(postponed, copied)
    )


@cache
def prune(name: str) -> Executable:
    """Deletes up to `batch_size` of the records `name` that ended `kept_ms` ago; one row (n)."""
    record = RECORDS[name]
    pruned = _deletion(record).returning(number(1)).cte("pruned")
    return select(func.count().label("n")).select_from(pruned)


@cache
def roll_up() -> Executable:
    """Adds up to `batch_size` minutes of queues that began `kept_ms` ago to the first minute of
    their hour, oldest first, and deletes them; one row (n).
    """
    bucket_ms = queue_counter.c.bucket_ms
    hour_ms = number(HOUR_MS)
    minutes = Record(queue_counter, bucket_ms, bucket_ms % hour_ms != number(0))
    gone = (
        _deletion(minutes)
        .returning(
            queue_counter.c.queue,
            (bucket_ms - bucket_ms % hour_ms).label("bucket_ms"),
            queue_counter.c.arrived,
            queue_counter.c.completed,
        )
        .cte("gone")
    )
    key = (gone.c.queue, gone.c.bucket_ms)
    writing = insert(queue_counter).from_select(
        ["queue", "bucket_ms", "arrived", "completed"],
        select(*key, total(gone.c.arrived), total(gone.c.completed)).group_by(*key).order_by(*key),
    )
    hours = writing.on_conflict_do_update(
        index_elements=[queue_counter.c.queue, bucket_ms],
        set_={
            name: queue_counter.c[name] + writing.excluded[name]
            for name in ("arrived", "completed")
        },
    )
    return select(func.count().label("n")).select_from(gone).add_cte(hours.cte("hours"))


def _deletion(record: Record) -> Delete:
    """Of up to `batch_size` records that ended `kept_ms` ago, oldest first, and nobody holds."""
    # By the address of the row, which a lock holds still.
    address: ColumnElement[Any] = literal_column("ctid")
    picked = materialized(
        select(address.label("address"))
        .select_from(record.table)
        .where(record.over, record.ended <= now_ms() - _KEPT_MS)
        .order_by(record.ended)
        .limit(_SIZE)
        .with_for_update(skip_locked=True),
        "picked",
    )
    return delete(record.table).where(
        address == any_(func.array(select(picked.c.address).scalar_subquery()))
    )
