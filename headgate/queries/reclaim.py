"""Leases that ran out: who held them is gone, and the job pays with its crash count."""

from functools import cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Executable,
    Integer,
    any_,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    null,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, distinct_on, insert

from headgate.queries.clock import now_ms
from headgate.queries.literals import number, word
from headgate.queries.outcomes import backoff, lease_given_back, with_history
from headgate.queries.states import state_value
from headgate.tables import job, job_state, quarantine

CRASH_LIMIT: Final = 3
"""At this many crashes a job is quarantined, and its fingerprint with it."""

WINDOW: Final = 5_000
"""How many running jobs one pass looks at; the next goes on behind them."""


@cache
def running_window() -> Executable:
    """The running jobs after `after_id` in order: (id, expired). No index knows expiries."""
    now = now_ms()
    running = state_value("running")
    return (
        select(job.c.id, (job.c.lease_expires_at_ms <= now).label("expired"))
        .where(
            tuple_(job.c.state, job.c.id)
            > tuple_(running, bindparam("after_id", type_=BigInteger)),
            job.c.state <= running,
            job.c.id > number(0),
        )
        .order_by(job.c.state, job.c.id)
        .limit(number(WINDOW))
    )


@cache
def reclaim() -> Executable:
    """Takes the jobs of `row_id_array` back whose lease is still expired and whose row is free.

    A row for each: (job_id, kind, fingerprint, crash_attempt, quarantined). The crash is counted on
    the job and on the step it was in; at the limit the fingerprint is quarantined with a sample.
    """
    now = now_ms()
    one = number(1)
    expired = (
        select(job.c.id)
        .where(
            job.c.id == any_(bindparam("row_id_array", type_=ARRAY(BigInteger))),
            # A lease means a running job. The state itself would offer the planner the index of
            # running jobs, which it would read whole.
            job.c.lease_id.is_not(None),
            job.c.lease_expires_at_ms <= now,
        )
        .order_by(job.c.id)
        .with_for_update(skip_locked=True)
        .cte("expired")
        .prefix_with("MATERIALIZED")
    )
    condemned = job.c.crash_attempt + one >= number(CRASH_LIMIT)
    entry = func.jsonb_build_object(
        word("at_ms"),
        now,
        word("crash_attempt"),
        job.c.crash_attempt + one,
        word("outcome"),
        word("lease_lost"),
        word("error"),
        word("lease expired without ack"),
    )
    reclaimed = (
        update(job)
        .where(job.c.id == any_(func.array(select(expired.c.id).scalar_subquery())))
        .values(
            state=cast(
                case((condemned, state_value("quarantined")), else_=state_value("retryable")),
                job_state,
            ),
            crash_attempt=job.c.crash_attempt + one,
            scheduled_at_ms=case(
                (condemned, job.c.scheduled_at_ms),
                else_=now + backoff(job.c.crash_attempt),
            ),
            finalized_at_ms=case((condemned, now), else_=null()),
            claimed_at_ms=case((condemned, job.c.claimed_at_ms), else_=null()),
            rate_charge=number(0),
            errors=with_history(entry),
            checkpoint=_with_crash(),
            **lease_given_back(),
        )
        .returning(
            job.c.ulid.label("job_id"),
            job.c.kind,
            job.c.fingerprint,
            job.c.crash_attempt,
            (job.c.state == state_value("quarantined")).label("quarantined"),
            job.c.payload,
        )
        .cte("reclaimed")
    )
    condemning = insert(quarantine).from_select(
        ["fingerprint", "kind", "crash_count", "quarantined_at_ms", "sample_payload", "reason"],
        select(
            reclaimed.c.fingerprint,
            reclaimed.c.kind,
            reclaimed.c.crash_attempt,
            now,
            reclaimed.c.payload,
            word("crash limit reached"),
        )
        .ext(distinct_on(reclaimed.c.fingerprint))
        .where(reclaimed.c.quarantined)
        .order_by(reclaimed.c.fingerprint, reclaimed.c.crash_attempt.desc()),
    )
    condemning = condemning.on_conflict_do_update(
        index_elements=[quarantine.c.fingerprint],
        set_={
            "crash_count": func.greatest(quarantine.c.crash_count, condemning.excluded.crash_count)
        },
    )
    return select(
        reclaimed.c.job_id,
        reclaimed.c.kind,
        reclaimed.c.fingerprint,
        reclaimed.c.crash_attempt,
        reclaimed.c.quarantined,
    ).add_cte(condemning.cte("condemned"))


def _with_crash() -> Any:
    """The checkpoint with one more crash of the step that was in progress."""
    step = job.c.checkpoint["in_progress"].astext
    crashes = func.coalesce(job.c.checkpoint["crashes"], literal_column("'{}'::jsonb"))
    count = cast(func.coalesce(crashes.op("->>")(step), literal_column("'0'")), Integer)
    counted = func.jsonb_build_object(
        word("crashes"),
        crashes.op("||")(func.jsonb_build_object(step, count + number(1))),
    )
    return case((step.is_not(None), job.c.checkpoint.op("||")(counted)), else_=job.c.checkpoint)
