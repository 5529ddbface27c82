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
    func,
    literal_column,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.sql.selectable import LateralFromClause

from headgate.queries.clock import instant
from headgate.queries.lanes import LANE, waits_in
from headgate.queries.literals import always, number, word
from headgate.queries.shapes import materialized
from headgate.queries.states import is_state, state_value
from headgate.tables import job, quarantine

# Something with the columns of a lane: columns of a selectable, or a mapping of values.
Lane = Any

QUEUES: Final = bindparam("queues", type_=ARRAY(Text))
CAPACITY: Final = bindparam("capacity", type_=Integer)
WORKER: Final = bindparam("worker", type_=Text)
LEASE: Final = bindparam("new_lease_id", type_=Text)

LANE_BINDS: Final[Lane] = {
    name: bindparam(f"lane_{name}", type_=Integer if name == "priority" else Text) for name in LANE
}
"""One lane, given by its columns as `lane_{column}`."""

ADDRESS: Final[ColumnElement[Any]] = literal_column("ctid")
"""Where a row version lies, in a statement that reads one table. Within a statement that is the
only access to a row that no planner can turn into a walk along some other index."""

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


def probe(found: Select[Any], name: str) -> LateralFromClause:
    """A look-up per row of what stands before it.

    The offset keeps the planner from making a join of it, which may become a scan of the table.
    """
    return found.offset(number(0)).lateral(name)


def clock() -> CTE:
    """The clock, read once, for all that one statement writes."""
    return materialized(select(instant().label("now_ms")), "clock")


def read(made: CTE, name: str) -> ScalarSelect[Any]:
    """The only value of a CTE of one row."""
    return select(made.c[name]).scalar_subquery()


def is_served(entry: FromClause) -> list[ColumnElement[bool]]:
    """The lane is for this worker: of a queue it polls, and pinned to it or to nobody."""
    return [entry.c.queue == any_(QUEUES), entry.c.sticky_worker.in_([word(""), WORKER])]


def next_jobs(waiting: FromClause, lane: Lane, *columns: Any) -> Select[Any]:
    """The jobs that wait in a lane, first come first served, without the quarantined ones."""
    # Neither EXISTS, which may become a scan of the table, nor equality, for which an index may be
    # read whole that has the column in second place: only one index has this order.
    one = select(number(1)).select_from(quarantine).order_by(quarantine.c.fingerprint)
    own = quarantine.c.fingerprint.between(waiting.c.fingerprint, waiting.c.fingerprint)
    # Mostly there are none at all, which is found out once.
    some = one.where(quarantine.c.fingerprint >= word("")).limit(number(1)).scalar_subquery()
    quarantined = one.where(own).scalar_subquery()
    return (
        select(*columns)
        .select_from(waiting)
        .where(*waits_in(waiting, lane), or_(some.is_(None), quarantined.is_(None)))
        .order_by(waiting.c.scheduled_at_ms, waiting.c.id)
    )


def first_job(lane: Lane) -> Select[Any]:
    """A row if some job waits in the lane, whatever keeps it from starting.

    The order is that of the one index that may serve it.
    """
    waiting = job.alias("waiting")
    return (
        select(number(1))
        .select_from(waiting)
        .where(*waits_in(waiting, lane))
        .order_by(waiting.c.scheduled_at_ms, waiting.c.id)
        .limit(number(1))
    )


def still_available(taken: FromClause) -> ColumnElement[bool]:
    """The check of a row that is at hand, in a form that invites no index."""
    return is_state(taken.c.state, "available").is_(always())


def claim(
    chosen: ScalarSelect[Any], now_ms: ColumnElement[int], charge: ColumnElement[int]
) -> Update:
    """Starts the jobs at the chosen addresses, which are locked, under one lease.

    `state` is checked again on the version that is written. A version that came after the snapshot
    is not found by its address; that job stays available.
    """
    return (
        update(job)
        .where(any_(func.array(chosen)) == ADDRESS, still_available(job))
        .values(
            state=state_value("running"),
            lease_id=LEASE,
            lease_expires_at_ms=now_ms + bindparam("lease_ms", type_=BigInteger),
            claimed_at_ms=now_ms,
            claimed_by=WORKER,
            fence=job.c.fence + number(1),
            rate_charge=charge,
        )
        .returning(*CLAIM_COLUMNS)
    )
