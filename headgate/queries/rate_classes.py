"""Rate classes: reading and changing the buckets that the gate spends from."""

from functools import cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    Executable,
    FromClause,
    Text,
    Update,
    bindparam,
    case,
    delete,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from headgate.queries.clock import now_ms
from headgate.queries.gate.buckets import scaled_level
from headgate.queries.literals import always, number, word
from headgate.queries.shapes import page_offset, page_size
from headgate.queries.states import is_state
from headgate.tables import job, rate_bucket

MAX_WAITING: Final = 1_000
"""How many waiting jobs of a rate class are counted."""


def _name() -> Any:
    return bindparam("wanted_name", type_=Text)


def level(bucket: FromClause, now: ColumnElement[int]) -> ColumnElement[int]:
    """The whole tokens that a bucket holds now, by the gate's own arithmetic."""
    tokens: ColumnElement[int] = scaled_level(bucket, now) // bucket.c.window_ms
    return tokens


def _stopped(bucket: Any) -> ColumnElement[bool]:
    """Nothing passes: the class is paused, or its limit is 0, which reads the same."""
    return or_(bucket.paused, bucket.limit_per_window == number(0))


@cache
def rate_classes(*, one: bool) -> Executable:
    """A page of rate classes by name, or the class `wanted_name`, with level and waiting jobs."""
    chosen = select(rate_bucket)
    if one:
        chosen = chosen.where(rate_bucket.c.name == _name())
    else:
        chosen = chosen.order_by(rate_bucket.c.name).offset(page_offset()).limit(page_size())
    bucket = chosen.subquery("bucket")
    first = (
        select(job.c.id)
        .where(
            job.c.rate_class == bucket.c.name,
            is_state(job.c.state, "available"),
            job.c.rate_class != word(""),
        )
        .order_by(job.c.queue, job.c.priority.desc(), job.c.scheduled_at_ms, job.c.id)
        .limit(number(MAX_WAITING))
        .correlate(bucket)
        .lateral("first")
    )
    waiting = (
        select(func.count(first.c.id).label("jobs"))
        .select_from(first)
        .correlate(bucket)
        .lateral("waiting")
    )
    stopped = _stopped(bucket.c)
    return (
        select(
            bucket.c.name,
            case((stopped, number(0)), else_=level(bucket, now_ms())).label("tokens_available"),
            bucket.c.burst,
            case((stopped, number(0)), else_=bucket.c.limit_per_window).label("limit_per_window"),
            bucket.c.window_ms,
            waiting.c.jobs.label("jobs_waiting"),
            stopped.label("paused"),
        )
        .select_from(bucket.join(waiting, always()))
        .order_by(bucket.c.name)
    )


@cache
def lock_rate_class() -> Executable:
    """The class `wanted_name` and what it holds at `now_ms` in units of token times window, locked
    until the end of the transaction.
    """
    now = now_ms()
    return (
        select(
            now.label("now_ms"),
            scaled_level(rate_bucket, now).label("scaled_level"),
            rate_bucket.c.window_ms,
            _stopped(rate_bucket.c).label("stopped"),
        )
        .where(rate_bucket.c.name == _name())
        .with_for_update()
    )


def _terms() -> dict[str, Any]:
    return {
        "burst": bindparam("new_burst", type_=BigInteger),
        "limit_per_window": bindparam("new_limit", type_=BigInteger),
        "window_ms": bindparam("new_window_ms", type_=BigInteger),
        "paused": bindparam("new_paused", type_=Boolean),
        "tokens": bindparam("new_tokens", type_=BigInteger),
    }


@cache
def add_rate_class() -> Executable:
    """Makes the class `wanted_name` unless there is one; a row (name) when it is new."""
    return (
        insert(rate_bucket)
        .values(name=_name(), refilled_at_ms=now_ms(), **_terms())
        .on_conflict_do_nothing()
        .returning(rate_bucket.c.name)
    )


@cache
def change_rate_class() -> Update:
    """Gives the class `wanted_name` other terms, and what it holds of `credited_at_ms`."""
    credited_at_ms = bindparam("credited_at_ms", type_=BigInteger)
    return (
        update(rate_bucket)
        .where(rate_bucket.c.name == _name())
        .values(
            remainder=bindparam("new_remainder", type_=BigInteger),
            # Another gate may have read the clock later and got here first.
            refilled_at_ms=func.greatest(rate_bucket.c.refilled_at_ms, credited_at_ms),
            **_terms(),
        )
    )


@cache
def delete_rate_class() -> Executable:
    """Deletes the class `wanted_name`, a row (name) when there was one. Its jobs run unlimited."""
    return delete(rate_bucket).where(rate_bucket.c.name == _name()).returning(rate_bucket.c.name)
