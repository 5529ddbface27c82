"""The next tick of a spec: the vectors, and where clocks do what they rarely do."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from headgate.model.errors import InvalidRequest
from headgate.model.limits import MAX_MS
from headgate.model.schedule import next_after, validate

VECTORS = json.loads((Path(__file__).parent / "cron_ticks.json").read_text())
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def at(local: str, zone: str = "UTC", *, fold: int = 0) -> int:
    """The instant of a local time."""
    moment = datetime.fromisoformat(local).replace(tzinfo=ZoneInfo(zone), fold=fold)
    return int(moment.timestamp()) * 1000


def ticks(spec: str, after_ms: int, count: int) -> list[int]:
    found: list[int] = []
    for _ in range(count):
        after_ms = next_after(spec, after_ms)
        found.append(after_ms)
    return found


def days(spec: str, zone: str, after: str, count: int) -> list[str]:
    """The local times of the next ticks."""
    return [
        f"{datetime.fromtimestamp(tick / 1000, ZoneInfo(zone)):%m-%d %H:%M}"
        for tick in ticks(f"CRON_TZ={zone} {spec}", at(after, zone), count)
    ]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda each: f"{each['spec']}@{each['after_ms']}")
def test_every_vector(vector: dict[str, Any]) -> None:
    assert next_after(vector["spec"], vector["after_ms"]) == vector["next_ms"]


def test_bc_48_a_gap_is_skipped_and_an_overlap_fires_once() -> None:
    zone = "Europe/Madrid"
    assert days("30 2 * * *", zone, "2024-03-29 12:00", 3) == [
        "03-30 02:30",
        "04-01 02:30",
        "04-02 02:30",
    ]
    spec = f"CRON_TZ={zone} 30 2 * * *"
    autumn = ticks(spec, at("2024-10-26 12:00", zone), 2)
    assert autumn == [at("2024-10-27 02:30", zone, fold=0), at("2024-10-28 02:30", zone)]
    year = ticks(spec, at("2023-12-31 12:00", zone), 365)
    assert len(set(year)) == 365
    assert year[-1] == at("2024-12-31 02:30", zone), "366 days, one of them without 02:30"


@pytest.mark.parametrize("month", ["2024-04", "2024-10"])
def test_bc_49_a_change_of_half_an_hour_leaves_one_run_a_day(month: str) -> None:
    zone = "Australia/Lord_Howe"
    found = ticks(f"CRON_TZ={zone} 45 1 * * *", at(f"{month}-01 00:00", zone), 30)
    assert found == [at(f"{month}-{day:02} 01:45", zone) for day in range(1, 31)]


def test_bc_49_the_half_hour_that_comes_twice_and_the_one_that_is_missing() -> None:
    zone = "Australia/Lord_Howe"
    twice = next_after(f"CRON_TZ={zone} 45 1 * * *", at("2024-04-06 12:00", zone))
    assert twice == at("2024-04-07 01:45", zone, fold=0)
    assert twice != at("2024-04-07 01:45", zone, fold=1)
    assert days("15 2 * * *", zone, "2024-10-05 12:00", 1) == ["10-07 02:15"]
    assert days("45 2 * * *", zone, "2024-10-05 12:00", 1) == ["10-06 02:45"]


def test_the_second_pass_of_an_hour_has_no_ticks() -> None:
    zone = "America/New_York"
    second_pass = at("2024-11-03 01:10", zone, fold=1)
    for spec in ("*/20 * * * *", "*/20 * * * * *"):
        assert next_after(f"CRON_TZ={zone} {spec}", second_pass) == at("2024-11-03 02:00", zone)


def test_a_change_at_midnight() -> None:
    # The first hour of the day is missing, and a whole day is.
    assert days("*/30 * * * *", "Asia/Beirut", "2024-03-30 23:15", 2) == [
        "03-30 23:30",
        "03-31 01:00",
    ]
    assert days("0 12 * * *", "Pacific/Apia", "2011-12-28 13:00", 2) == [
        "12-29 12:00",
        "12-31 12:00",
    ]
    # At one past midnight it is one past eleven again, of the day before.
    zone = "America/St_Johns"
    found = ticks(f"CRON_TZ={zone} 0 0 * * *", at("2010-11-06 12:00", zone), 2)
    assert found == [at("2010-11-07 00:00", zone, fold=0), at("2010-11-08 00:00", zone)]
    found = ticks(f"CRON_TZ={zone} 30 23 * * *", at("2010-11-06 12:00", zone), 2)
    assert found == [at("2010-11-06 23:30", zone, fold=0), at("2010-11-07 23:30", zone)]


def test_an_offset_may_have_seconds() -> None:
    zone = "Africa/Monrovia"  # 44 minutes and 30 seconds, until 1972
    assert next_after(f"CRON_TZ={zone} 0 9 * * *", 0) == (9 * 3600 + 44 * 60 + 30) * 1000


def test_a_day_matches_by_month_or_by_week() -> None:
    # Thursdays, and each tenth day from the first.
    found = ticks("0 0 */10 * 4", at("2024-02-01 12:00"), 6)
    assert [datetime.fromtimestamp(tick / 1000, ZoneInfo("UTC")).day for tick in found] == [
        8,
        11,
        15,
        21,
        22,
        29,
    ]


def test_an_impossible_day_of_the_month_leaves_those_of_the_week() -> None:
    assert next_after("0 0 30 2 1", at("2024-02-01 00:00")) == at("2024-02-05 00:00")


@pytest.mark.parametrize(
    ("field", "wanted"),
    [
        ("0-7", [0, 1, 2, 3, 4, 5, 6]),
        ("5-7", [0, 5, 6]),
        ("FRI-SUN", [0, 5, 6]),
        ("sun-tue", [0, 1, 2]),
        ("5-7/2", [0, 5]),
        ("7", [0]),
        ("0,7", [0]),
        ("*/2", [0, 2, 4, 6]),
        ("1/3", [0, 1, 4]),
    ],
)
def test_days_of_the_week(field: str, wanted: list[int]) -> None:
    found = ticks(f"0 0 * * {field}", at("2024-01-06 12:00"), len(wanted))
    # The seventh of January 2024 was a Sunday.
    assert sorted((tick - at("2024-01-07 00:00")) // DAY_MS for tick in found) == wanted


def test_a_question_mark_is_a_star() -> None:
    after = at("2024-01-01 00:30")
    assert next_after("0 9 ? * ?", after) == next_after("0 9 * * *", after)
    assert next_after("0 9 ? * 1", after) == next_after("0 9 * * 1", after)
    assert next_after("?/15 * * * *", after) == at("2024-01-01 00:45")


def test_a_step_behind_a_value_goes_on_to_the_end() -> None:
    found = ticks("50/5 3 * * *", at("2024-01-01 00:00"), 3)
    assert [tick // 60_000 % 60 for tick in found] == [50, 55, 50]


def test_a_tick_is_later_than_the_instant() -> None:
    for spec in ("@every:1000", "* * * * * *", "CRON_TZ=Asia/Kolkata * * * * * *"):
        assert next_after(spec, 999) == 1000
        assert next_after(spec, 1000) == 2000
    assert next_after("@every:1", MAX_MS - 1) == MAX_MS


@pytest.mark.parametrize("spec", ["@every:5", "0 0 * * *", "CRON_TZ=Asia/Tokyo 0 0 * * *"])
def test_time_ends_with_the_year_9999(spec: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        next_after(spec, MAX_MS)
    assert error.value.message == f"cron `{spec}` has no future occurrence"


@pytest.mark.parametrize("spec", ["0 0 30 2 *", "0 0 31 2,4,6,9,11 ?", "CRON_TZ=UTC 0 0 31 4 *"])
def test_a_date_that_never_comes(spec: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        validate(spec)
    assert error.value.message == f"cron `{spec}` has no future occurrence"


def test_a_century_without_its_leap_day() -> None:
    assert next_after("0 0 29 2 *", at("2096-03-01 00:00")) == at("2104-02-29 00:00")
