"""Durations and instants as people write them, turned into the milliseconds that everything uses.

A duration is given either as a `timedelta` or, under the same name with `_ms`, as an integer.
"""

from datetime import datetime, timedelta
from typing import Final

from headgate.model.errors import InvalidRequest

_MILLISECOND: Final = timedelta(milliseconds=1)


def duration_ms(field: str, value: timedelta | None, value_ms: int | None = None) -> int | None:
    """The duration in milliseconds, or None when neither form was given.

    Raises `InvalidRequest` when both were given and for anything below one millisecond: a duration
    that rounds to nothing is a mistake, and no duration is said by leaving it out. Raises
    `TypeError` for another type.
    """
    if value is not None:
        if value_ms is not None:
            raise InvalidRequest(f"give {field} or {field}_ms, not both")
        if not isinstance(value, timedelta):
            raise TypeError(f"{field} is a timedelta; whole milliseconds go into {field}_ms")
        value_ms = value // _MILLISECOND
    elif value_ms is None:
        return None
    elif isinstance(value_ms, bool) or not isinstance(value_ms, int):
        raise TypeError(f"{field}_ms is an integer of milliseconds")
    if value_ms < 1:
        raise InvalidRequest(f"{field} must be at least 1 ms")
    return value_ms


def instant_ms(field: str, value: datetime | None, value_ms: int | None = None) -> int | None:
    """The instant in milliseconds since the epoch, or None when neither form was given.

    Raises `InvalidRequest` for a datetime without a time zone, which could mean any hour of the
    day, and when both forms were given.
    """
    if value is None:
        return value_ms
    if value_ms is not None:
        raise InvalidRequest(f"give {field} or {field}_ms, not both")
    if value.utcoffset() is None:
        raise InvalidRequest(f"{field} needs a time zone: datetime.now(UTC), not datetime.now()")
    return int(value.timestamp() * 1000)
