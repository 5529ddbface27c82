"""What the statements of the gate share: their parameters, the draw of a lane, the claim."""

from typing import Any, Final

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    FromClause,
    Integer,
    ScalarSelect,
    Select,
    Text,
    Update,
    any_,
    bindparam,
    exists,
    func,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY

from headgate.queries.lanes import LANE
from headgate.queries.literals import number
from headgate.queries.states import is_state, state_value
from headgate.tables import active_partition, job, quarantine

QUEUES: Final = bindparam("queues", type_=ARRAY(Text))
CAPACITY: Final = bindparam("capacity", type_=Integer)
WORKER: Final = bindparam("worker", type_=Text)

CLAIM_COLUMNS: Final = (
    job.c.ulid,
    job.c.lease_id,
    job.c.fence,
    job.c.lease_expires_at_ms,
    job.c.claimed_at_ms,
    job.c.kind,
    job.c.schema_version,
    job.c.payload,
    job.c.queue,
    job.c.partition_key,
    job.c.rate_class,
    job.c.weight,
    job.c.fingerprint,
    job.c.priority,
    job.c.attempt,
    job.c.crash_attempt,
    job.c.max_attempts,
    job.c.enqueued_at_ms,
    job.c.scheduled_at_ms,
    job.c.timeout_ms,
    job.c.deadline_ms,
    job.c.retention_ms,
    job.c.headers,
    job.c.checkpoint,
    job.c.cp_cursor,
    job.c.periodic_schedule_id,
    job.c.periodic_tick_ms,
    job.c.sticky_worker,
)
"""The fields of `Claim`, in their order."""


def materialized(statement: Any, name: str) -> CTE:
    """A CTE that is evaluated once, where it stands in the plan."""
    made: CTE = statement.cte(name).prefix_with("MATERIALIZED", dialect="postgresql")
    return made


def waits_in(waiting: FromClause, lane: Any) -> list[ColumnElement[bool]]:
    """The row of `headgate_job` is available in `lane`: all that the index of lanes asks for."""
    return [
        *(waiting.c[name] == lane[name] for name in LANE),
        is_state(waiting.c.state, "available"),
    ]


def not_quarantined(waiting: FromClause) -> ColumnElement[bool]:
    return ~exists(
        select(number(1)).where(quarantine.c.fingerprint == waiting.c.fingerprint)
    )


def lane_of(entry: FromClause) -> list[ColumnElement[Any]]:
    return [entry.c[name] for name in LANE]


def is_lane(entry: FromClause, lane: Any) -> list[ColumnElement[bool]]:
    return [entry.c[name] == lane[name] for name in LANE]


def served_lanes(entry: FromClause = active_partition) -> list[ColumnElement[bool]]:
    """Entries that this worker may serve: of the queues it polls, pinned to it or to nobody."""
    return [
        entry.c.queue == any_(QUEUES),
        entry.c.sticky_worker.in_([_nobody(), WORKER]),
    ]


def claim(
    chosen: ScalarSelect[int], now_ms: ColumnElement[int], charge: ColumnElement[int]
) -> Update:
    """Starts the chosen jobs under one lease. The array keeps the planner on the primary key.

    `state` is checked again on the version that is written, so a job that someone else took
    meanwhile is left alone.
    """
    return (
        update(job)
        .where(job.c.id == any_(func.array(chosen)), is_state(job.c.state, "available"))
        .values(
            state=state_value("running"),
            lease_id=bindparam("new_lease_id", type_=Text),
            lease_expires_at_ms=now_ms + bindparam("lease_ms", type_=BigInteger),
            claimed_at_ms=now_ms,
            claimed_by=WORKER,
            fence=job.c.fence + number(1),
            rate_charge=charge,
        )
        .returning(*CLAIM_COLUMNS)
    )
