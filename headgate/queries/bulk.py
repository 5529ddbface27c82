"""A selection of jobs as the streams that an operation on it follows.

A selection is worked off state by state. Within one, jobs come in the order of their row ids from
the one index that fits: by kind, else by queue, else by state alone. Equality on its leading
columns and a row bound on (state, id) leave the planner no other. Whatever else the selection asks
for is looked at row by row, within a window.
"""

from functools import cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    Select,
    Text,
    and_,
    any_,
    bindparam,
    cast,
    func,
    select,
    tuple_,
    union_all,
)
from sqlalchemy.dialects.postgresql import ARRAY

from headgate.model.lifecycle import State
from headgate.queries.literals import always, number
from headgate.queries.states import is_state, state_value
from headgate.queries.streams import leading
from headgate.tables import (
    job,
    ledger,
    operation,
    queue_count,
)

ESTIMATE: Final = 20_000
"""How many entries of its streams an estimate looks at; what lies behind them is not counted."""

# Whose index drives the stream; what is mostly the narrower one comes first.
_DRIVERS: Final = ("kind", "queue")
_OPERATION_ID: Final[Any] = bindparam("operation_id", type_=Text)


def driver(given: frozenset[str]) -> str | None:
    """The condition whose index drives the stream of a selection; None for that of the states."""
    return next((name for name in _DRIVERS if name in given), None)


def is_searched(given: frozenset[str]) -> bool:
    """Whether jobs must be looked at one by one, beyond what the index of the stream knows."""
    return bool(given - {driver(given)})


def _matches(given: frozenset[str]) -> ColumnElement[bool]:
    driven_by = driver(given)
    conditions: list[ColumnElement[bool]] = [
        job.c[name] == _wanted(name)
        for name in ("queue", "kind", "partition_key")
        if name in given and name != driven_by
    ]
    if "older_than_ms" in given:
        created = (
            select(operation.c.created_at_ms - bindparam("wanted_older_than_ms", type_=BigInteger))
            .where(operation.c.id == _OPERATION_ID)
            .scalar_subquery()
        )
        conditions.append(job.c.enqueued_at_ms < created)
    return and_(always(), *conditions)


def _wanted(name: str) -> Any:
    return bindparam(f"wanted_{name}", type_=Text)


def _stream(
    given: frozenset[str], state: State, after_id: ColumnElement[int], size: ColumnElement[int]
) -> Select[Any]:
    value = state_value(state)
    return (
        select(job.c.id, _matches(given).label("matches"))
        .where(
            *leading(driver(given)),
            tuple_(job.c.state, job.c.id) > tuple_(value, after_id),
            job.c.state <= value,
        )
        .order_by(job.c.state, job.c.id)
        .limit(size)
    )


@cache
def window(given: frozenset[str], state: State) -> Select[Any]:
    """The next `window_size` jobs in `state` after `after_id`: rows (id, matches).

    `given` names the conditions of the selection. It knows no end: whoever reads it stops at the
    first job that is too new, since an index would walk all of those in vain.
    """
    return _stream(
        given,
        state,
        bindparam("after_id", type_=BigInteger),
        bindparam("window_size", type_=Integer),
    )


@cache
def estimate(given: frozenset[str], states: tuple[State, ...]) -> Select[Any]:
    """How many jobs match among the first 20,000 of the streams; exact if those have no more."""
    limit = number(ESTIMATE)
    arms = [
        select(_stream(given, state, number(0), limit).subquery(f"of_{state}")) for state in states
    ]
    looked_at = select(union_all(*arms).subquery("merged")).limit(limit).subquery("looked_at")
    return select(func.count()).select_from(looked_at).where(looked_at.c.matches)


@cache
def count_jobs(states: tuple[State, ...], *, of_queue: bool) -> Select[Any]:
    """How many jobs are in these states, exactly: in the queue `wanted_queue`, or in all of them.

    Base rows and what is not folded yet, in one snapshot.
    """

    def counted(table: Any) -> Select[Any]:
        rows = select(table.c.n).where(is_state(table.c.state, *states))
        return rows.where(table.c.queue == _wanted("queue")) if of_queue else rows

    counts = union_all(counted(queue_count), counted(ledger)).subquery("counts")
    total = func.coalesce(func.sum(counts.c.n), number(0))
    return select(cast(func.greatest(total, number(0)), BigInteger))


@cache
def lock_free_jobs(states: tuple[State, ...]) -> Select[Any]:
    """Locks those of the jobs `row_id_array` that are in these states and that nobody holds."""
    return (
        select(job.c.id)
        .where(
            job.c.id == any_(bindparam("row_id_array", type_=ARRAY(BigInteger))),
            is_state(job.c.state, *states),
        )
        .order_by(job.c.id)
        .with_for_update(skip_locked=True)
    )


@cache
def still_selected(states: tuple[State, ...]) -> Select[Any]:
    """Which of the jobs `row_id_array` are in these states, whether or not somebody holds them."""
    return select(job.c.id).where(
        job.c.id == any_(bindparam("row_id_array", type_=ARRAY(BigInteger))),
        is_state(job.c.state, *states),
    )
