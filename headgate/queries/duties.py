"""Who does what by itself: a row per duty, leased on the database's clock."""

from functools import cache

from sqlalchemy import BigInteger, Executable, Text, bindparam, or_, update
from sqlalchemy.dialects.postgresql import insert

from headgate.queries.clock import instant
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
