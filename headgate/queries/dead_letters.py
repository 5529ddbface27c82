"""Dead letters: jobs that failed for good lately."""

from functools import cache
from typing import Any, Final

from sqlalchemy import BigInteger, ColumnElement, Executable, bindparam, func, select, union_all

from headgate.model.lifecycle import State
from headgate.queries.literals import number
from headgate.queries.states import is_state
from headgate.queries.streams import of_state
from headgate.tables import job

MAX_COUNT: Final = 1_000
"""How far they are counted."""

_FAILED: Final = (State.ARCHIVED, State.UNDECODABLE)


@cache
def count_dead_letters() -> Executable:
    """One row (count, approximate): what ended archived or undecodable from `since_ms` on.
    `before_id` is beyond every row.

    Jobs without a retention of their own stand in the order of their end in an index. Of the others
    the newest are looked at, as few as there normally are.
    """
    ended_lately = job.c.finalized_at_ms >= bindparam("since_ms", type_=BigInteger)
    without = _page(
        select(job.c.finalized_at_ms).where(
            is_state(job.c.state, *_FAILED), job.c.retention_ms == number(0), ended_lately
        )
    ).subquery("without")
    columns = (job.c.finalized_at_ms, job.c.retention_ms)
    newest = union_all(
        *(
            _page(of_state(state, None, columns)).subquery(f"newest_{state}").select()
            for state in _FAILED
        )
    ).subquery("newest")
    other = _number(
        select(func.count())
        .select_from(newest)
        .where(
            newest.c.retention_ms > number(0),
            newest.c.finalized_at_ms >= bindparam("since_ms", type_=BigInteger),
        )
    )
    counted = _number(select(func.count()).select_from(without))
    return select(
        (func.least(counted, number(MAX_COUNT)) + other).label("count"),
        (counted > number(MAX_COUNT)).label("approximate"),
    )


def _page(statement: Any) -> Any:
    return statement.limit(number(MAX_COUNT + 1))


def _number(statement: Any) -> ColumnElement[int]:
    found: ColumnElement[int] = statement.scalar_subquery()
    return found
