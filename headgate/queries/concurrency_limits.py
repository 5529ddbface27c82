"""Concurrency limits: one at most for each queue."""

from functools import cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Executable,
    Select,
    Text,
    bindparam,
    delete,
    func,
    select,
)
from sqlalchemy.dialects.postgresql import insert

from headgate.queries.literals import number
from headgate.queries.shapes import page_offset, page_size
from headgate.tables import concurrency_limit

# Any number will do that nothing else of ours locks.
_LOCK: Final = 0x6867_6365_696C_696E


def _name() -> Any:
    return bindparam("wanted_name", type_=Text)


@cache
def concurrency_limits(*, one: bool) -> Select[Any]:
    """A page of limits by name, or the limit `wanted_name`."""
    found = select(concurrency_limit).order_by(concurrency_limit.c.name)
    if one:
        return found.where(concurrency_limit.c.name == _name())
    return found.offset(page_offset()).limit(page_size())


@cache
def lock_concurrency_limits() -> Executable:
    """Lets one change of limits at a time go on, until its transaction ends.

    A violation of the unique queue would abort the transaction instead of naming who has it.
    """
    return select(func.pg_advisory_xact_lock(number(_LOCK)))


@cache
def limit_of_queue() -> Select[Any]:
    """The name of the limit that `new_queue` has."""
    return select(concurrency_limit.c.name).where(
        concurrency_limit.c.queue == bindparam("new_queue", type_=Text)
    )


@cache
def put_concurrency_limit() -> Executable:
    """Makes or changes the limit `wanted_name`."""
    values = {
        "queue": bindparam("new_queue", type_=Text),
        "max_concurrent": bindparam("new_max_concurrent", type_=BigInteger),
        "on_saturated": bindparam("new_on_saturated", type_=Text),
    }
    writing = insert(concurrency_limit).values(name=_name(), **values)
    return writing.on_conflict_do_update(
        index_elements=[concurrency_limit.c.name],
        set_={name: writing.excluded[name] for name in values},
    )


@cache
def delete_concurrency_limit() -> Executable:
    """Deletes the limit `wanted_name`; a row (name) when there was one."""
    return (
        delete(concurrency_limit)
        .where(concurrency_limit.c.name == _name())
        .returning(concurrency_limit.c.name)
    )
