"""States as they stand in statements: bare literals.

A bound parameter could not prove the predicate of a partial index in a generic plan, and a cast
would name a schema. An untyped literal beside the column takes the column's type.
"""

from typing import Any

from sqlalchemy import ColumnElement

from headgate.model.lifecycle import LIVE, State
from headgate.queries.literals import word


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
