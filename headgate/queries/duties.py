"""Who does what by itself: a row per duty, leased on the database's clock."""

from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    Executable,
    Text,
    bindparam,
    case,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from headgate.queries.clock import instant, now_ms
from headgate.queries.literals import number
from headgate.tables import duty


@cache
def claim_duty() -> Executable:
    """Takes or extends the lease of a duty; a row comes back when `duty_holder` has it now."""
    holder = bindparam("duty_holder", type_=Text)
    now_ms = instant()
    claiming = insert(duty).values(
        name=bindparam("duty_name", type_=Text),
        holder=holder,
        expires_at_ms=now_ms + bindparam("lease_ms", type_=BigInteger),
    )
    return claiming.on_conflict_do_update(
        index_elements=[duty.c.name],
        set_={
            "holder": claiming.excluded.holder,
            "expires_at_ms": claiming.excluded.expires_at_ms,
        },
        where=or_(duty.c.expires_at_ms < now_ms, duty.c.holder == claiming.excluded.holder),
    ).returning(duty.c.name)


@cache
def release_duty() -> Executable:
    """Lets a duty go at once; only its holder can."""
    return (
        update(duty)
        .where(
            duty.c.name == bindparam("duty_name", type_=Text),
            duty.c.holder == bindparam("duty_holder", type_=Text),
        )
        .values(expires_at_ms=number(0))
    )


@cache
def report_duty() -> Executable:
    """Adds `handled_rows` to what a duty has done, and extends its lease; with `is_done`, nothing
    was left for it now.

    Only for its holder; a row comes back then.
    """
    return (
        update(duty)
        .where(
            duty.c.name == bindparam("duty_name", type_=Text),
            duty.c.holder == bindparam("duty_holder", type_=Text),
        )
        .values(
            expires_at_ms=instant() + bindparam("lease_ms", type_=BigInteger),
            interval_ms=bindparam("duty_interval_ms", type_=BigInteger),
            rows_handled=duty.c.rows_handled + bindparam("handled_rows", type_=BigInteger),
            succeeded_at_ms=case(
                (bindparam("is_done", type_=Boolean), instant()), else_=duty.c.succeeded_at_ms
            ),
        )
        .returning(duty.c.name)
    )


@cache
def duty_states() -> Executable:
    """Every duty by name, as `DutyState` has it."""
    now = now_ms()
    held = duty.c.expires_at_ms >= now
    succeeded = duty.c.succeeded_at_ms > number(0)
    late = func.greatest(now - duty.c.succeeded_at_ms - duty.c.interval_ms, number(0))
    columns: dict[str, ColumnElement[Any]] = {
        "holder": case((held, duty.c.holder), else_=None),
        "expires_at_ms": case((held, duty.c.expires_at_ms), else_=None),
        "last_success_ms": case((succeeded, duty.c.succeeded_at_ms), else_=None),
        "lag_ms": case((succeeded, late), else_=None),
        "rows_handled": duty.c.rows_handled,
    }
    return select(duty.c.name, *(value.label(name) for name, value in columns.items())).order_by(
        duty.c.name
    )
