"""Who does what by itself: a row per duty, leased on the database's clock."""

from functools import cache

from sqlalchemy import BigInteger, Executable, Text, bindparam, case, or_, select, update
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
def duty_leases() -> Executable:
    """Every duty by name, its holder and the end of the lease; NULL where nobody has it now."""
    held = duty.c.expires_at_ms >= now_ms()
    return select(
        duty.c.name,
        *(
            case((held, each), else_=None).label(each.name)
            for each in (duty.c.holder, duty.c.expires_at_ms)
        ),
    ).order_by(duty.c.name)
