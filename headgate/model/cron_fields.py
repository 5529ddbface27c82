"""The grammar of one field of a cron expression: from its text to the numbers it stands for.

A field is a list of terms; a term is a value, a range or every value (`*`, `?`), with a step behind
a slash if need be. Months and days of the week have English names of three letters. Nothing else is
understood: no `L`, `W` or `#`. A number is compared with its bounds before any range is made of it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

_NO_NAMES: Final[Mapping[str, int]] = MappingProxyType({})


class FieldError(ValueError):
    """The text is not a field; the message says what is wrong with it."""


class Field(msgspec.Struct, frozen=True):
    """One place of a cron expression, and the numbers that may stand there."""

    name: str
    low: int
    high: int
    names: Mapping[str, int] = _NO_NAMES


def _numbered(names: str, first: int) -> Mapping[str, int]:
    return MappingProxyType({name: first + n for n, name in enumerate(names.split())})


SECOND: Final = Field("second", 0, 59)
MINUTE: Final = Field("minute", 0, 59)
HOUR: Final = Field("hour", 0, 23)
DAY_OF_MONTH: Final = Field("day of month", 1, 31)
MONTH: Final = Field(
    "month", 1, 12, _numbered("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC", 1)
)
# Both 0 and 7 are Sunday, so that a week may begin or end with it.
DAY_OF_WEEK: Final = Field("day of week", 0, 7, _numbered("SUN MON TUE WED THU FRI SAT", 0))


def is_unrestricted(text: str) -> bool:
    """Whether the field says nothing at all; `*/1` and a full range do say something."""
    return text in ("*", "?")


def parse_field(field: Field, text: str) -> tuple[int, ...]:
    """The numbers that `text` stands for, in order. Raises `FieldError`."""
    values: set[int] = set()
    for term in text.split(","):
        values.update(_term(field, term))
    return tuple(sorted(values))


def _term(field: Field, term: str) -> range:
    span, slash, step = term.partition("/")
    low, high = _span(field, span, open_ended=bool(slash))
    return range(low, high + 1, _step(field, step) if slash else 1)


def _span(field: Field, text: str, *, open_ended: bool) -> tuple[int, int]:
    """The bounds of a term. A single value with a step goes on to the end of the field."""
    if is_unrestricted(text):
        return field.low, field.high
    first, dash, last = text.partition("-")
    low = _value(field, first)
    if not dash:
        return low, field.high if open_ended else low
    high = _value(field, last)
    if field is DAY_OF_WEEK and last.upper() == "SUN" and low > 0:
        high = 7
    if high < low:
        raise FieldError(f"{field.name} range `{text}` ends before it begins")
    return low, high


def _value(field: Field, text: str) -> int:
    named = field.names.get(text.upper())
    value = _number(field, text) if named is None else named
    if not field.low <= value <= field.high:
        raise FieldError(f"{field.name} `{text}` is not between {field.low} and {field.high}")
    return value


def _step(field: Field, text: str) -> int:
    step = _number(field, text)
    if not 1 <= step <= field.high:
        raise FieldError(f"step `{text}` of {field.name} is not between 1 and {field.high}")
    return step


def _number(field: Field, text: str) -> int:
    # Python would also take spaces, underscores, signs and digits of other scripts.
    if not (text.isascii() and text.isdigit()):
        raise FieldError(f"{field.name} `{text}` is not understood")
    return int(text)
