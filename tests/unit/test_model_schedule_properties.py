"""The arithmetic agrees with somebody who looks at the wall clock every minute."""

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from hypothesis import example, given, settings
from hypothesis import strategies as st

from headgate.model.errors import InvalidRequest
from headgate.model.limits import MAX_MS
from headgate.model.schedule import due_ticks, next_after

MINUTE_MS = 60_000
WALKED_MINUTES = 3 * 24 * 60

# Near changes forth and back, of an hour, of half an hour, at midnight and of a whole day.
EDGES = {
    "UTC": ["2024-02-28", "2024-12-31"],
    "America/New_York": ["2024-03-09", "2024-11-02"],
    "Europe/Madrid": ["2024-03-30", "2024-10-26"],
    "Asia/Kolkata": ["2024-01-31"],
    "Australia/Lord_Howe": ["2024-04-06", "2024-10-05"],
    "America/St_Johns": ["2010-03-13", "2010-11-06"],
    "Asia/Beirut": ["2024-03-30", "2024-10-26"],
    "America/Havana": ["2024-03-09", "2024-11-02"],
    "Pacific/Apia": ["2011-12-29"],
    "Africa/Casablanca": ["2024-03-09", "2024-04-13"],
}


class Field(NamedTuple):
    text: str
    values: frozenset[int]


def _listed(low: int, high: int) -> st.SearchStrategy[Field]:
    return st.sets(st.integers(low, high), min_size=1, max_size=4).map(
        lambda values: Field(",".join(map(str, values)), frozenset(values))
    )


def _ranged(low: int, high: int) -> st.SearchStrategy[Field]:
    return st.builds(
        lambda ends, step: Field(
            f"{min(ends)}-{max(ends)}/{step}", frozenset(range(min(ends), max(ends) + 1, step))
        ),
        st.tuples(st.integers(low, high), st.integers(low, high)),
        st.integers(1, min(7, high)),
    )


def _stepped(low: int, high: int) -> st.SearchStrategy[Field]:
    return st.integers(1, high).map(
        lambda step: Field(f"*/{step}", frozenset(range(low, high + 1, step)))
    )


def field(low: int, high: int) -> st.SearchStrategy[Field]:
    every = st.just(Field("*", frozenset(range(low, high + 1))))
    return every | _listed(low, high) | _ranged(low, high) | _stepped(low, high)


class Expression(NamedTuple):
    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field

    @property
    def text(self) -> str:
        return " ".join(each.text for each in self)

    def matches(self, local: datetime) -> bool:
        by_month = local.day in self.day.values
        by_week = local.isoweekday() % 7 in {value % 7 for value in self.weekday.values}
        restricted = self.day.text != "*" and self.weekday.text != "*"
        return (
            local.minute in self.minute.values
            and local.hour in self.hour.values
            and local.month in self.month.values
            and ((by_month or by_week) if restricted else (by_month and by_week))
        )


expressions = st.builds(
    Expression, field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 7)
)
places = st.sampled_from([(zone, day) for zone, days in EDGES.items() for day in days])


@cache
def wall_clock(place: tuple[str, str]) -> list[tuple[int, datetime]]:
    """What the clock of a place shows, minute after minute, half a day before midnight and on."""
    zone, day = place
    first = midnight(day) - 720 * MINUTE_MS
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return [
        (at_ms, (epoch + timedelta(milliseconds=at_ms)).astimezone(ZoneInfo(zone)))
        for at_ms in range(first, first + 8_000 * MINUTE_MS, MINUTE_MS)
    ]


def walk(expression: Expression, place: tuple[str, str], after_ms: int, until_ms: int) -> list[int]:
    """The minutes whose wall time matches, unless the clock showed that time before."""
    return [
        at_ms
        for at_ms, local in wall_clock(place)
        if after_ms < at_ms <= until_ms and not local.fold and expression.matches(local)
    ]


def midnight(day: str) -> int:
    return int(datetime.fromisoformat(f"{day}T00:00+00:00").timestamp()) * 1000


def next_or_never(spec: str, after_ms: int) -> int:
    try:
        return next_after(spec, after_ms)
    except InvalidRequest as never:
        return MAX_MS if "no future occurrence" in never.message else 0


EVERY_HALF_HOUR = Expression(
    Field("*/30", frozenset({0, 30})),
    Field("*", frozenset(range(24))),
    Field("*", frozenset(range(1, 32))),
    Field("*", frozenset(range(1, 13))),
    Field("*", frozenset(range(8))),
)


@settings(max_examples=150, deadline=None)
@given(expressions, places, st.integers(-720, 2160), st.integers(0, MINUTE_MS - 1))
@example(EVERY_HALF_HOUR, ("America/St_Johns", "2010-11-06"), 0, 0)
@example(EVERY_HALF_HOUR, ("Pacific/Apia", "2011-12-29"), 0, 0)
def test_the_ticks_are_those_of_the_wall_clock(
    expression: Expression, place: tuple[str, str], offset_minutes: int, milliseconds: int
) -> None:
    spec = f"CRON_TZ={place[0]} {expression.text}"
    after = midnight(place[1]) + offset_minutes * MINUTE_MS + milliseconds
    until = after + WALKED_MINUTES * MINUTE_MS
    walked = walk(expression, place, after, until)
    for tick in walked[:200]:
        assert next_after(spec, after) == tick
        after = tick
    if len(walked) <= 200:
        assert next_or_never(spec, after) > until


@settings(max_examples=150, deadline=None)
@given(
    expressions,
    places,
    st.integers(-720, 1440),
    st.integers(0, 2000),
    st.integers(1, 5000),
    st.integers(1, 5000),
)
@example(EVERY_HALF_HOUR, ("America/St_Johns", "2010-11-06"), 1200, 180, 3, 9)
def test_what_is_due_are_the_newest_of_them(
    expression: Expression,
    place: tuple[str, str],
    offset_minutes: int,
    outage_minutes: int,
    cap: int,
    limit: int,
) -> None:
    spec = f"CRON_TZ={place[0]} {expression.text}"
    announced = midnight(place[1]) + offset_minutes * MINUTE_MS
    now = announced + outage_minutes * MINUTE_MS
    walked = [announced, *walk(expression, place, announced, now)]
    assert due_ticks(spec, announced, now, cap, limit=limit) == walked[-cap:][:limit]
