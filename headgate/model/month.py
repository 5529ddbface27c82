"""A calendar month in UTC, as the archive is divided by."""

import re
from datetime import UTC, datetime
from typing import Final, Self

import msgspec

from headgate.model.errors import InvalidRequest

_FORM: Final = re.compile(r"([0-9]{4})(0[1-9]|1[0-2])")


class Month(msgspec.Struct, frozen=True, order=True):
    """The month `number`, 1 to 12, of a year."""

    year: int
    number: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """The month of a text like 202611. Raises `InvalidRequest`."""
        found = _FORM.fullmatch(text)
        if found is None or int(found[1]) < 1:
            raise InvalidRequest("archive month must have YYYYMM form")
        return cls(int(found[1]), int(found[2]))

    @classmethod
    def of(cls, at_ms: int) -> Self:
        """The month that an instant is in."""
        moment = datetime.fromtimestamp(at_ms / 1000, UTC)
        return cls(moment.year, moment.month)

    def __str__(self) -> str:
        return f"{self.year:04}{self.number:02}"

    def next(self) -> "Month":
        return Month(self.year + self.number // 12, self.number % 12 + 1)

    @property
    def begins_ms(self) -> int:
        """Its first millisecond."""
        return round(datetime(self.year, self.number, 1, tzinfo=UTC).timestamp()) * 1000
