"""Answers that are kept so that a repeated request gets the same one and acts once.

The lock is that of the transaction: whoever holds it is carrying the request out, and a crash lets
it go. It is taken in a statement of its own, so that what is read after it is newer than whatever
its last holder has committed.
"""

from functools import cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Executable,
    Integer,
    LargeBinary,
    Text,
    bindparam,
    cast,
    func,
    select,
)
from sqlalchemy.dialects.postgresql import JSONB, insert

from headgate.queries.clock import instant, now_ms
from headgate.queries.literals import number
from headgate.tables import idempotency

KEPT_MS: Final = 24 * 3_600_000
"""How long an answer is kept."""

_KEY: Final = ("identity", "method", "route", "key")


def _key(name: str) -> Any:
    return bindparam(f"given_{name}", type_=Text)


@cache
def try_lock() -> Executable:
    """One row (taken): whether `lock_number` is ours until the end of the transaction."""
    number_ = bindparam("lock_number", type_=BigInteger)
    return select(func.pg_try_advisory_xact_lock(number_).label("taken"))


@cache
def find_answer() -> Executable:
    """The answer that is kept for a key, with the `request_hash` of the request it was for."""
    age_ms = now_ms() - idempotency.c.recorded_at_ms
    return select(
        idempotency.c.request_hash,
        idempotency.c.status,
        cast(idempotency.c.headers, Text).label("headers"),
        idempotency.c.body,
    ).where(*(idempotency.c[name] == _key(name) for name in _KEY), age_ms < number(KEPT_MS))


@cache
def keep_answer() -> Executable:
    """Keeps an answer, in the place of one that nobody may ask for any more."""
    answer: dict[str, ColumnElement[Any]] = {
        "request_hash": bindparam("given_request_hash", type_=LargeBinary),
        "status": bindparam("given_status", type_=Integer),
        "headers": cast(bindparam("given_headers", type_=Text), JSONB),
        "body": bindparam("given_body", type_=LargeBinary),
        "recorded_at_ms": instant(),
    }
    writing = insert(idempotency).values(**{name: _key(name) for name in _KEY}, **answer)
    return writing.on_conflict_do_update(
        index_elements=list(_KEY), set_={name: writing.excluded[name] for name in answer}
    )
