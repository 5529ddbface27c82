"""Constants as they stand in the text of a statement.

SQLAlchemy would bind a plain constant, and a bound one is unknown to a generic plan: it hides what
a partial index or a LIMIT needs to see. These are for constants of ours alone, never for input.
"""

from typing import Any

from sqlalchemy import ColumnElement, literal_column


def number(value: int) -> ColumnElement[int]:
    return literal_column(str(value))


def word(value: str) -> ColumnElement[Any]:
    """A text constant without a type, which takes the type of what it meets."""
    assert value.replace("_", "").replace(" ", "").isalnum() or not value
    return literal_column(f"'{value}'")


def always() -> ColumnElement[bool]:
    return literal_column("true")


def never() -> ColumnElement[bool]:
    return literal_column("false")
