"""When a schedule is due: the grammar of its spec, and the arithmetic of its ticks.

A spec is `@every:<ms>`, whose ticks are the multiples of the period since the epoch, or a cron
expression of five fields, or six with seconds first, in UTC or behind `CRON_TZ=<zone> `. All
instants are milliseconds since the epoch; where "now" is wanted, the caller brings the database's.
"""

import re
from collections.abc import Iterator
from datetime import UTC, tzinfo
from functools import lru_cache
from itertools import chain, islice
from typing import Final
from zoneinfo import ZoneInfo

from headgate.model.cron import Cron, Fields
from headgate.model.cron_fields import (
    DAY_OF_MONTH,
    DAY_OF_WEEK,
    HOUR,
    MINUTE,
    MONTH,
    SECOND,
    Field,
    FieldError,
    is_unrestricted,
    parse_field,
)
from headgate.model.errors import InvalidRequest
from headgate.model.limits import MAX_MS, check_name

MAX_SPEC_BYTES: Final = 1_024
"""Enough for every list of numbers that makes sense."""

MAX_TICKS: Final = 1_000
"""How many ticks are taken up at once."""

EVERY: Final = "@every:"
CRON_ZONE: Final = "CRON_TZ="

_PERIOD: Final = re.compile(r"[+-]?[0-9]+")
_MAX_ZONE_BYTES: Final = 64
_ZONE: Final = re.compile(r"[A-Z][A-Za-z0-9_+-]*(/[A-Z][A-Za-z0-9_+-]*)*")


def validate(spec: str) -> None:
    """Refuse a spec that is not understood, or that no date will ever match, with
    `InvalidRequest`.
    """
    next_after(spec, 0)


def next_after(spec: str, after_ms: int) -> int:
    """The first tick of the spec that is later than `after_ms`. Raises `InvalidRequest`."""
    tick = _parse(spec).next_after(after_ms)
    if tick is None or tick > MAX_MS:
        raise InvalidRequest(f"cron `{spec}` has no future occurrence")
    return tick


def due_ticks(
    spec: str, next_run_ms: int, now_ms: int, cap: int, *, limit: int = MAX_TICKS
) -> list[int]:
    """The ticks that are due: the oldest `limit` of the `cap` newest, in order.

    `next_run_ms` was announced, so it is the first of them even if the spec does not name it. The
    time this takes depends on the days that have passed, not on the ticks. Raises `InvalidRequest`.
    """
    if next_run_ms > now_ms:
        return []
    count, ticks = _parse(spec).latest(next_run_ms, now_ms, cap)
    first = [next_run_ms] if count < cap and next_run_ms > 0 else []
    return list(islice(chain(first, ticks), limit))


class _Every:
    """Every multiple of a period."""

    def __init__(self, period_ms: int) -> None:
        self._period_ms = period_ms

    def next_after(self, after_ms: int) -> int:
        return (after_ms // self._period_ms + 1) * self._period_ms

    def latest(self, after_ms: int, until_ms: int, most: int) -> tuple[int, Iterator[int]]:
        last = until_ms // self._period_ms * self._period_ms
        first = max(self.next_after(after_ms), last - (most - 1) * self._period_ms)
        ticks = range(first, last + 1, self._period_ms)
        return len(ticks), iter(ticks)


@lru_cache(maxsize=512)
def _parse(spec: str) -> _Every | Cron:
    check_name("spec", spec, max_bytes=MAX_SPEC_BYTES)
    if spec.startswith(EVERY):
        return _Every(_period(spec))
    if not spec.startswith(CRON_ZONE):
        return Cron(_fields(spec, spec), UTC)
    name, _, expression = spec.removeprefix(CRON_ZONE).partition(" ")
    if expression.lstrip().startswith(EVERY):
        raise InvalidRequest(f"`@every` is epoch-aligned UTC and takes no CRON_TZ: `{spec}`")
    zone = _zone(name)
    return Cron(_fields(spec, expression), zone)


def _period(spec: str) -> int:
    text = spec.removeprefix(EVERY)
    if not _PERIOD.fullmatch(text):
        raise InvalidRequest(f"bad @every spec `{spec}`")
    period_ms = int(text)
    if period_ms < 1:
        raise InvalidRequest("@every period must be >= 1ms")
    if period_ms > MAX_MS:
        raise InvalidRequest("@every period is too large")
    return period_ms


def _zone(name: str) -> tzinfo:
    if len(name) <= _MAX_ZONE_BYTES and _ZONE.fullmatch(name):
        try:
            return ZoneInfo(name)
        except (LookupError, ValueError, OSError):
            # No such zone, not a zone, or the folder of some.
            pass
    raise InvalidRequest(f"unknown timezone `{name}`")


def _fields(spec: str, expression: str) -> Fields:
    texts = expression.split()
    if len(texts) == 5:
        texts.insert(0, "0")
    if len(texts) != 6:
        raise InvalidRequest(f"bad cron `{spec}`: want 5 fields, or 6 with seconds")
    second, minute, hour, day, month, weekday = texts
    try:
        return Fields(
            seconds=parse_field(SECOND, second),
            minutes=parse_field(MINUTE, minute),
            hours=parse_field(HOUR, hour),
            days=_day_field(DAY_OF_MONTH, day),
            months=parse_field(MONTH, month),
            weekdays=_day_field(DAY_OF_WEEK, weekday),
        )
    except FieldError as error:
        raise InvalidRequest(f"bad cron `{spec}`: {error}") from None


def _day_field(field: Field, text: str) -> tuple[int, ...] | None:
    return None if is_unrestricted(text) else parse_field(field, text)
