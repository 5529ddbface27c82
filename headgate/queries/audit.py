"""Who changed what through the control API, and when."""

from functools import cache

from sqlalchemy import BigInteger, Executable, Integer, Text, bindparam, insert, select

from headgate.queries.clock import instant
from headgate.tables import audit


@cache
def append_audit() -> Executable:
    """Adds one entry, stamped by the database."""
    given = ("identity", "role", "method", "route", "target", "idempotency_key")
    return insert(audit).values(
        at_ms=instant(),
        status=bindparam("given_status", type_=Integer),
        **{name: bindparam(f"given_{name}", type_=Text) for name in given},
    )


@cache
def audit_page() -> Executable:
    """Up to `page_size` entries before `before_id`, newest first."""
    return (
        select(audit)
        .where(audit.c.id < bindparam("before_id", type_=BigInteger))
        .order_by(audit.c.id.desc())
        .limit(bindparam("page_size", type_=Integer))
    )
