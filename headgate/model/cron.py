"""The ticks of a cron expression: on which days, at which times, and what a time zone makes of it.

Days come from cronsim, which knows the calendar; one engine for days of the month and one for days
of the week, since a day that matches either of two restricted fields fires. Times of day are
counted, not walked, so that looking over a year of ticks costs what its days cost.

All of it happens on the local wall clock and is mapped back: a time that a zone leaves out is
skipped, one that it repeats fires once, at the first instant. Ticks that follow each other on the
wall clock therefore follow each other in truth, and bisection finds an instant among those of a
day.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from heapq import merge
from itertools import groupby
from typing import Final, NamedTuple

from cronsim import CronSim, CronSimError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY: Final = timedelta(days=1)
_SECOND: Final = timedelta(seconds=1)
_MILLISECOND: Final = timedelta(milliseconds=1)
_DAY_SECONDS: Final = 86_400


class Fields(NamedTuple):
    """The numbers of each field, in order. None for days is no restriction."""

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...] | None
    months: tuple[int, ...]
    weekdays: tuple[int, ...] | None


class Cron:
    """A cron expression in a time zone."""

    def __init__(self, fields: Fields, zone: tzinfo) -> None:
        self._times = _Times(fields)
        self._zone = zone
        self._calendars = [text for text in _calendars(fields) if _is_possible(text)]

    def next_after(self, after_ms: int) -> int | None:
        """The first tick after this instant; None when no date matches any more."""
        try:
            for day in self._days(self._local_date(after_ms)):
                passed = day.count_until(after_ms)
                if passed < len(day):
                    return day.instant(passed)
        except (OverflowError, ValueError):
            # Past the year 9999.
            pass
        return None

    def latest(self, after_ms: int, until_ms: int, most: int) -> tuple[int, Iterator[int]]:
        """The `most` newest ticks after the one instant and up to the other: how many they are,
        and the ticks themselves, oldest first.
        """
        spans: list[tuple[_Day, int, int]] = []
        total = 0
        # The clock may have been put back over midnight: then the next day has begun once already.
        newest = self._local_date(until_ms) + _DAY
        for day in self._days(newest, backwards=True):
            start, stop = day.count_until(after_ms), day.count_until(until_ms)
            if start < stop:
                start = max(start, stop - (most - total))
                total += stop - start
                spans.append((day, start, stop))
            if start > 0 or total == most:
                break
        return total, (
            day.instant(number)
            for day, start, stop in reversed(spans)
            for number in range(start, stop)
        )

    def _days(self, start: date, *, backwards: bool = False) -> "Iterator[_Day]":
        """The days that match, from this one on or back."""
        midnight = datetime.combine(start, time())
        edge = midnight + _SECOND if backwards else midnight - _SECOND
        engines = (CronSim(text, edge, backwards) for text in self._calendars)
        for found, _ in groupby(merge(*engines, reverse=backwards)):
            yield _Day(found, self._times, self._zone)

    def _local_date(self, instant_ms: int) -> date:
        instant = _EPOCH + timedelta(milliseconds=instant_ms)
        return instant.astimezone(self._zone).date()


def _calendars(fields: Fields) -> list[str]:
    """An expression for each way in which a day may match: midnight of each such day."""
    months = _listed(fields.months)
    days = None if fields.days is None else f"0 0 {_listed(fields.days)} {months} *"
    weekdays = None if fields.weekdays is None else f"0 0 * {months} {_listed(fields.weekdays)}"
    return [text for text in (days, weekdays) if text] or [f"0 0 * {months} *"]


def _listed(values: tuple[int, ...]) -> str:
    return ",".join(map(str, values))


def _is_possible(calendar: str) -> bool:
    """Whether there is such a date; the engine refuses what there never is, as 30 February."""
    try:
        CronSim(calendar, datetime.min)
    except CronSimError:
        return False
    return True


class _Times:
    """The times of a day that match, as seconds since its midnight, without listing them."""

    def __init__(self, fields: Fields) -> None:
        self._hours, self._minutes, self._seconds = fields.hours, fields.minutes, fields.seconds

    def __len__(self) -> int:
        return len(self._hours) * len(self._minutes) * len(self._seconds)

    def __getitem__(self, number: int) -> int:
        rest, second = divmod(number, len(self._seconds))
        hour, minute = divmod(rest, len(self._minutes))
        return self._hours[hour] * 3600 + self._minutes[minute] * 60 + self._seconds[second]

    def count_before(self, second_of_day: int) -> int:
        """How many of them come before this second."""
        rest, second = divmod(second_of_day, 60)
        hour, minute = divmod(rest, 60)
        hours = bisect_left(self._hours, hour)
        count = hours * len(self._minutes) * len(self._seconds)
        if hour in self._hours[hours : hours + 1]:
            minutes = bisect_left(self._minutes, minute)
            count += minutes * len(self._seconds)
            if minute in self._minutes[minutes : minutes + 1]:
                count += bisect_left(self._seconds, second)
        return count


class _Day:
    """The ticks of one local day, numbered from 0."""

    def __init__(self, midnight: datetime, times: _Times, zone: tzinfo) -> None:
        self._midnight = midnight
        self._times = times
        self._zone = zone
        gap_start, gap_end = _gap(midnight, zone)
        self._gap = times.count_before(gap_start)
        self._skipped = times.count_before(gap_end) - self._gap

    def __len__(self) -> int:
        return len(self._times) - self._skipped

    def instant(self, number: int) -> int:
        """When the tick of this number is due."""
        if number >= self._gap:
            number += self._skipped
        wall = self._midnight + timedelta(seconds=self._times[number])
        # Without a fold: of two instants with this wall time, the first.
        return (wall.replace(tzinfo=self._zone) - _EPOCH) // _MILLISECOND

    def count_until(self, instant_ms: int) -> int:
        """How many of the ticks are due at this instant."""
        size = len(self)
        if not size or self.instant(0) > instant_ms:
            return 0
        if self.instant(size - 1) <= instant_ms:
            return size
        return bisect_right(range(size), instant_ms, key=self.instant)


def _gap(midnight: datetime, zone: tzinfo) -> tuple[int, int]:
    """The seconds of the day that its zone leaves out, from the first to the one after the last.

    Inside a gap, a time with a fold already has the offset that holds after it, and one without
    still the offset from before.
    """
    before = _offset(midnight, zone, fold=0)
    after = _offset(midnight + _DAY, zone, fold=1)
    if after <= before:
        return 0, 0

    def has_changed(second: int, fold: int) -> bool:
        return _offset(midnight + timedelta(seconds=second), zone, fold=fold) == after

    seconds = range(_DAY_SECONDS)
    return (
        bisect_left(seconds, True, key=lambda second: has_changed(second, 1)),
        bisect_left(seconds, True, key=lambda second: has_changed(second, 0)),
    )


def _offset(wall: datetime, zone: tzinfo, *, fold: int) -> timedelta:
    offset = wall.replace(tzinfo=zone, fold=fold).utcoffset()
    assert offset is not None
    return offset
