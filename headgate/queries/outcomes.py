"""How an attempt ends: the statements behind an acknowledgement, each for a whole batch.

The right to acknowledge is the lease: job id, lease id and fence of a running row. A row that does
not match is left alone and not returned, which tells the caller that its lease was lost. Only the
job rows are touched; counts go to the append-only ledger.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    Executable,
    FromClause,
    Integer,
    LargeBinary,
    Text,
    and_,
    any_,
    bindparam,
    case,
    cast,
    column,
    delete,
    func,
    literal_column,
    not_,
    null,
    or_,
    select,
    union_all,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, insert
from sqlalchemy.types import TypeEngine

from headgate.queries.clock import instant, minute
from headgate.queries.lanes import register
from headgate.queries.literals import always, number, word
from headgate.queries.states import is_state, state_value
from headgate.tables import job, job_state, ledger

RETRY_BASE_MS: Final = 1_000
RETRY_CAP_MS: Final = 3_600_000
HISTORY_KEPT: Final = 50
"""How many entries the error history of a job keeps; the oldest go first."""

LEASE_INPUTS: Final[Mapping[str, TypeEngine[Any]]] = {
    "job_id": Text(),
    "lease_id": Text(),
    "fence": BigInteger(),
}


def batch_of(inputs: Mapping[str, TypeEngine[Any]]) -> CTE:
    """Parallel arrays `{name}_array` as rows."""
    arrays = (bindparam(f"{name}_array", type_=ARRAY(kind)) for name, kind in inputs.items())
    rows = (
        func.unnest(*arrays)
        .table_valued(*(column(name, kind) for name, kind in inputs.items()))
        .render_derived(name="batch")
    )
    return select(rows).cte("source").prefix_with("MATERIALIZED")


def leases() -> CTE:
    """The leases of a batch as rows (job_id, lease_id, fence)."""
    return batch_of(LEASE_INPUTS)


def holds(source: FromClause) -> ColumnElement[bool]:
    """The lease of `source` is the one under which the job runs now.

    Only a running row has a lease, by a check of the table. Asking for the state as well would
    offer the planner the index of running rows, which it then reads whole for each lease.
    """
    return and_(
        job.c.ulid == source.c.job_id,
        job.c.lease_id == source.c.lease_id,
        job.c.fence == source.c.fence,
    )


def lease_given_back() -> dict[str, Any]:
    """The columns that end a lease; every way out of `running` sets them."""
    return {"lease_id": null(), "lease_expires_at_ms": null(), "claimed_by": null()}


def with_history(entry: ColumnElement[Any]) -> ColumnElement[Any]:
    """The error history with one more entry, within its limit."""
    return case(
        (
            func.jsonb_array_length(job.c.errors) >= number(HISTORY_KEPT),
            job.c.errors.op("-")(number(0)),
        ),
        else_=job.c.errors,
    ).op("||")(entry)


def backoff(counter: ColumnElement[int]) -> ColumnElement[int]:
    """`min(cap, base * 2^n)` with up to one base of jitter, so that a herd spreads out."""
    doublings = func.least(counter, number(20))
    doubled = number(RETRY_BASE_MS) * func.power(number(2), doublings)
    jitter = func.random() * number(RETRY_BASE_MS)
    return cast(func.least(number(RETRY_CAP_MS), doubled) + jitter, BigInteger)


def _key_outlives_job(now_ms: ColumnElement[int]) -> ColumnElement[bool]:
    return func.coalesce(job.c.unique_expires_at_ms > now_ms, literal_column("false"))


@cache
def succeed(*, results: bool, logs: bool) -> Executable:
    """Ends attempts in success; a row for each lease that was held, with the new `state`.

    A job without retention is deleted, unless its throttle key outlives it: then it stays completed
    until the window ends, as does one whose retention is shorter than that. `results` and `logs`
    carry what some attempt of the batch published.
    """
    inputs: dict[str, TypeEngine[Any]] = dict(LEASE_INPUTS)
    if results:
        inputs |= {"result_schema_version": Integer(), "result_bytes": LargeBinary()}
    if logs:
        inputs["logs"] = Text()
    source = batch_of(inputs)
    clock = select(instant().label("now_ms")).cte("clock").prefix_with("MATERIALIZED")
    now_ms = select(clock.c.now_ms).scalar_subquery()
    kept = or_(job.c.retention_ms > number(0), _key_outlives_job(now_ms))

    gone = (
        delete(job)
        .where(holds(source), not_(kept))
        .returning(job.c.ulid, source.c.lease_id, job.c.fence, job.c.queue, job.c.partition_key)
        .cte("gone")
    )
    values: dict[str, Any] = {
        "state": state_value("completed"),
        "finalized_at_ms": now_ms,
        "rate_charge": number(0),
        # NULL, where there is no throttle, is ignored.
        "retention_ms": func.greatest(job.c.retention_ms, job.c.unique_expires_at_ms - now_ms),
        **lease_given_back(),
    }
    if results:
        values["result_schema_version"] = source.c.result_schema_version
        values["result_bytes"] = source.c.result_bytes
    if logs:
        entry = func.jsonb_build_object(
            word("at_ms"),
            now_ms,
            word("attempt"),
            job.c.attempt + number(1),
            word("outcome"),
            word("success"),
            word("logs"),
            cast(source.c.logs, JSONB),
        )
        values["errors"] = case(
            (source.c.logs.is_not(None), with_history(entry)), else_=job.c.errors
        )
    completed = (
        update(job)
        .where(holds(source), kept)
        .values(values)
        .returning(job.c.ulid, source.c.lease_id, job.c.fence, job.c.queue, job.c.partition_key)
        .cte("completed")
    )
    settled = union_all(
        select(gone.c.queue, gone.c.partition_key),
        select(completed.c.queue, completed.c.partition_key),
    ).subquery("settled")
    counted = (
        insert(ledger)
        .from_select(
            ["queue", "partition_key", "completed", "bucket_ms"],
            select(settled.c.queue, settled.c.partition_key, func.count(), minute(now_ms)).group_by(
                settled.c.queue, settled.c.partition_key
            ),
        )
        .cte("counted")
    )
    return union_all(
        select(
            gone.c.ulid.label("job_id"),
            gone.c.lease_id,
            gone.c.fence,
            word("deleted").label("state"),
        ),
        select(completed.c.ulid, completed.c.lease_id, completed.c.fence, word("completed")),
    ).add_cte(counted)


@cache
def revoke() -> Executable:
    """Deletes the jobs of a batch of leases: the attempt and the job never were."""
    source = leases()
    return delete(job).where(holds(source)).returning(*source.c)


@cache
def conclude() -> Executable:
    """Ends attempts in anything but success and revocation; a row for each lease that was held,
    with the new `state`.

    `outcome_array` says how; `delay_ms_array` overrides the backoff of a retry, is the delay of a
    snooze, and postpones the return of a rate-limited job, which otherwise is available at once.
    """
    source = batch_of(
        {
            **LEASE_INPUTS,
            "outcome": Text(),
            "error": Text(),
            "delay_ms": BigInteger(),
            "logs": Text(),
        }
    )
    clock = select(instant().label("now_ms")).cte("clock").prefix_with("MATERIALIZED")
    now_ms = select(clock.c.now_ms).scalar_subquery()
    one = number(1)

    def ended(outcome: str) -> ColumnElement[bool]:
        return source.c.outcome == word(outcome)

    delayed = source.c.delay_ms > number(0)
    attempts_left = job.c.attempt + one < job.c.max_attempts
    state = case(
        (and_(ended("retry"), attempts_left), state_value("retryable")),
        (or_(ended("retry"), ended("skip")), state_value("archived")),
        (or_(ended("snooze"), and_(ended("rate_limited"), delayed)), state_value("scheduled")),
        (ended("rate_limited"), state_value("available")),
        else_=state_value("undecodable"),
    )
    waits = not_(is_state(state, "archived", "undecodable"))
    entry = func.jsonb_strip_nulls(
        func.jsonb_build_object(
            word("at_ms"),
            now_ms,
            word("attempt"),
            job.c.attempt + one,
            word("outcome"),
            case((ended("retry"), word("retry")), else_=state),
            word("error"),
            source.c.error,
            word("logs"),
            cast(source.c.logs, JSONB),
        )
    )
    told = or_(source.c.error.is_not(None), source.c.logs.is_not(None))
    concluded = (
        update(job)
        .where(holds(source))
        .values(
            state=cast(state, job_state),
            attempt=case((ended("retry"), job.c.attempt + one), else_=job.c.attempt),
            scheduled_at_ms=case(
                (
                    and_(ended("retry"), attempts_left),
                    now_ms + func.coalesce(source.c.delay_ms, backoff(job.c.attempt)),
                ),
                (or_(ended("snooze"), ended("rate_limited")) & delayed, now_ms + source.c.delay_ms),
                else_=job.c.scheduled_at_ms,
            ),
            finalized_at_ms=case((waits, null()), else_=now_ms),
            claimed_at_ms=case((waits, null()), else_=job.c.claimed_at_ms),
            rate_charge=number(0),
            errors=case(
                (
                    or_(ended("retry"), and_(told, or_(ended("skip"), ended("undecodable")))),
                    with_history(entry),
                ),
                else_=job.c.errors,
            ),
            **lease_given_back(),
        )
        .returning(
            *(source.c[name] for name in LEASE_INPUTS),
            cast(job.c.state, Text).label("state"),
            job.c.queue,
            job.c.sticky_worker,
            job.c.priority,
            job.c.partition_key,
            job.c.rate_class,
            (job.c.state == state_value("available")).label("available"),
        )
        .cte("concluded")
    )
    answer = [concluded.c[name] for name in (*LEASE_INPUTS, "state")]
    return select(*answer).add_cte(
        *register(select(concluded).where(concluded.c.available).subquery("fresh"))
    )


@cache
def renew() -> Executable:
    """Pushes the expiry of held leases to `lease_ms` from now; a row for each lease that is held.

    A row that is locked is left as it is. Waiting for it, with others in hand, is how this would
    deadlock with an acknowledgement, which takes its rows in an order of its own.
    """
    source = leases()
    held = select(job.c.id, *source.c).where(holds(source)).cte("held").prefix_with("MATERIALIZED")
    free = (
        select(job.c.id)
        .where(job.c.id == held.c.id, job.c.lease_id == held.c.lease_id)
        .with_for_update(key_share=True, skip_locked=True)
        .lateral("free")
    )
    locked = select(free.c.id).select_from(held.join(free, always()))
    renewed = (
        update(job)
        .where(job.c.id == any_(func.array(locked.scalar_subquery())))
        .values(lease_expires_at_ms=instant() + bindparam("lease_ms", type_=BigInteger))
        .cte("renewed")
    )
    return select(held.c.job_id, held.c.lease_id, held.c.fence).add_cte(renewed)
