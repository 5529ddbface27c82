"""What an operator does to jobs: the statements behind the actions, each for a whole list of rows.

An action is two statements of one transaction. The first locks the rows and tells the state in
which each of them is now; the second, whose snapshot is newer than the locks, changes those from
which the action is defined. Nothing is guessed, and no row can move in between.
"""

from functools import cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Executable,
    Integer,
    LargeBinary,
    Select,
    Text,
    Update,
    any_,
    bindparam,
    cast,
    column,
    delete,
    exists,
    func,
    null,
    or_,
    select,
    union_all,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY

from headgate.model.lifecycle import OPERATOR_ACTIONS, OperatorAction, State
from headgate.queries.clock import now_ms
from headgate.queries.lanes import LANE, register
from headgate.queries.literals import number
from headgate.queries.outcomes import lease_given_back
from headgate.queries.states import is_live, is_state, state_value
from headgate.tables import job

_ROW_IDS: Final[Any] = bindparam("row_id_array", type_=ARRAY(BigInteger))


def defined_from(action: OperatorAction) -> ColumnElement[bool]:
    """The job is in a state from which the action is defined."""
    defined = OPERATOR_ACTIONS[action]
    return is_state(job.c.state, *(state for state in State if state in defined))


@cache
def lock_jobs() -> Select[Any]:
    """Locks the jobs `job_id_array`, a row (row_id, job_id, kind, state) for each that exists.

    In the order of their ids, which is that of acknowledgements.
    """
    return (
        select(
            job.c.id.label("row_id"),
            job.c.ulid.label("job_id"),
            job.c.kind,
            cast(job.c.state, Text).label("state"),
        )
        .where(job.c.ulid == any_(bindparam("job_id_array", type_=ARRAY(Text))))
        .order_by(job.c.ulid)
        .with_for_update()
    )


@cache
def enter_available(action: OperatorAction) -> Executable:
    """Makes those of the locked jobs `row_id_array` available that may be: rows (row_id, queue).

    Left out are jobs whose unique key is held by another one; of several in the list with one key,
    all but the first. The action is a promotion, a retry or a release; the last forgives crashes.
    """
    wanted = (
        func.unnest(_ROW_IDS)
        .table_valued(column("row_id", BigInteger), with_ordinality="position")
        .render_derived(name="wanted")
    )
    turn = func.row_number().over(partition_by=job.c.unique_key, order_by=wanted.c.position)
    candidate = (
        select(job.c.id, job.c.unique_key, turn.label("turn"))
        .join_from(wanted, job, job.c.id == wanted.c.row_id)
        .where(defined_from(action))
        .subquery("candidate")
    )
    held = or_(*(exists(number(1)).where(*held) for held in _held_by_another(candidate)))
    free = (
        select(candidate.c.id)
        .where(or_(candidate.c.unique_key.is_(None), (candidate.c.turn == number(1)) & ~held))
        .cte("free")
        .prefix_with("MATERIALIZED")
    )
    values: dict[str, Any] = {
        "state": state_value("available"),
        "scheduled_at_ms": now_ms(),
        "finalized_at_ms": null(),
        "claimed_at_ms": null(),
    }
    if action is OperatorAction.RELEASE:
        values["crash_attempt"] = number(0)
    entered = (
        update(job)
        .where(
            job.c.id == any_(func.array(select(free.c.id).scalar_subquery())), defined_from(action)
        )
        .values(values)
        .returning(job.c.id.label("row_id"), *(job.c[name] for name in LANE))
        .cte("entered")
    )
    return select(entered.c.row_id, entered.c.queue).add_cte(*register(entered))


@cache
def key_holders() -> Executable:
    """Who else holds the unique keys of the jobs `row_id_array`: rows (row_id, holder)."""
    wanted = job.alias("wanted")
    holder = job.alias("holder")
    arms = (
        select(wanted.c.id.label("row_id"), holder.c.ulid.label("holder"))
        .where(wanted.c.id == any_(_ROW_IDS), wanted.c.unique_key.is_not(None))
        .where(*held)
        for held in _held_by_another(wanted, holder)
    )
    return union_all(*arms)


def _held_by_another(
    wanted: Any, holder: Any = None
) -> tuple[tuple[ColumnElement[bool], ...], tuple[ColumnElement[bool], ...]]:
    """Another job has the key: a live one, or one whose throttle window is open. An index each."""
    holder = job.alias("holder") if holder is None else holder
    same = (
        holder.c.unique_key == wanted.c.unique_key,
        holder.c.unique_key.is_not(None),
        holder.c.id != wanted.c.id,
    )
    throttled = holder.c.unique_expires_at_ms
    return (
        (*same, is_live(holder.c.state)),
        (*same, throttled.is_not(None), throttled > now_ms()),
    )


@cache
def cancel_jobs() -> Update:
    """Cancels those of the locked jobs `row_id_array` that may be; a row (row_id) for each.

    A running one loses its lease and gives its slot back; its fence stays, so that whoever held the
    lease is refused from now on.
    """
    return (
        update(job)
        .where(job.c.id == any_(_ROW_IDS), defined_from(OperatorAction.CANCEL))
        .values(
            state=state_value("cancelled"),
            finalized_at_ms=now_ms(),
            rate_charge=number(0),
            **lease_given_back(),
        )
        .returning(job.c.id.label("row_id"))
    )


@cache
def delete_jobs() -> Executable:
    """Deletes those of the locked jobs `row_id_array` that do not run; a row (row_id) for each."""
    return (
        delete(job)
        .where(job.c.id == any_(_ROW_IDS), defined_from(OperatorAction.DELETE))
        .returning(job.c.id.label("row_id"))
    )


@cache
def reschedule_job() -> Update:
    """Gives the locked job `row_id` the due time `due_at_ms`. Its state stays."""
    return (
        update(job)
        .where(
            job.c.id == bindparam("row_id", type_=BigInteger),
            defined_from(OperatorAction.RESCHEDULE),
        )
        .values(scheduled_at_ms=bindparam("due_at_ms", type_=BigInteger))
        .returning(job.c.id.label("row_id"))
    )


@cache
def edit_payload() -> Update:
    """Gives the locked job `row_id` another payload, with the fingerprint that belongs to it.

    `new_schema_version` NULL leaves the version as it is.
    """
    version = func.coalesce(
        bindparam("new_schema_version", type_=Integer), job.c.schema_version, type_=Integer
    )
    return (
        update(job)
        .where(
            job.c.id == bindparam("row_id", type_=BigInteger),
            defined_from(OperatorAction.EDIT_PAYLOAD),
        )
        .values(
            payload=bindparam("new_payload", type_=LargeBinary),
            fingerprint=bindparam("new_fingerprint", type_=Text),
            schema_version=version,
        )
        .returning(job.c.id.label("row_id"))
    )
