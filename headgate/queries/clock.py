"""The one clock: the database's, in milliseconds since the epoch.

`clock_timestamp()` moves during a transaction, so that a wait for a lock is time that has passed.
It is volatile, which forbids it as the bound of an index; `now_ms` hides it in a sub-select that is
evaluated once.
"""

from typing import Final

from sqlalchemy import BigInteger, ColumnElement, ScalarSelect, cast, func, select

from headgate.queries.literals import number

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS


def instant() -> ColumnElement[int]:
    """The clock at the moment of evaluation; for values that are written."""
    return cast(func.extract("epoch", func.clock_timestamp()) * number(1000), BigInteger)


def now_ms() -> ScalarSelect[int]:
    """The clock, read once per statement; for bounds of an index."""
    return select(instant().label("now_ms")).scalar_subquery()


def minute(at_ms: ColumnElement[int]) -> ColumnElement[int]:
    """The start of the minute bucket that holds `at_ms`."""
    started: ColumnElement[int] = at_ms - at_ms % number(MINUTE_MS)
    return started
