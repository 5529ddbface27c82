"""States as they stand in statements: bare literals.

A bound parameter could not prove the predicate of a partial index in a generic plan, and a cast
would name a schema. An untyped literal beside the column takes the column's type.
"""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, TableValuedAlias, cast, column, func, literal_column
from sqlalchemy.dialects.postgresql import ARRAY

from headgate.model.lifecycle import LIVE, State
from headgate.queries.literals import word
from headgate.tables import job_state


def state_value(state: str) -> ColumnElement[Any]:
    """The literal for a state, to compare with or to assign to a state column."""
    return word(State(state).value)


def is_state(state_column: ColumnElement[Any], *states: str) -> ColumnElement[bool]:
    """`state IN (...)` as the partial indexes spell it."""
    if len(states) == 1:
        return state_column == state_value(states[0])
    return state_column.in_([state_value(state) for state in states])


def is_live(state_column: ColumnElement[Any]) -> ColumnElement[bool]:
    """Unfinished, in the words of the lifecycle's unique index."""
    return is_state(state_column, *(state for state in State if state in LIVE))


def each_state(states: Iterable[str]) -> TableValuedAlias:
    """A row (state) for each, to visit the streams of several states one by one."""
    names = ",".join(State(state).value for state in states)
    listed: ColumnElement[Any] = literal_column(f"'{{{names}}}'")
    return (
        func.unnest(cast(listed, ARRAY(job_state)))
        .table_valued(column("state", job_state))
        .render_derived(name="each_state")
    )
