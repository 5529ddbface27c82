"""Which ticks are due after an outage, however long it was."""

import time
from itertools import pairwise

import pytest

from headgate.model.schedule import due_ticks, next_after
from tests.unit.test_model_schedule import DAY_MS, HOUR_MS, at

YEAR_MS = 366 * DAY_MS
NEW_YEAR = at("2024-01-01 00:00")


def test_the_newest_ticks_are_due() -> None:
    assert due_ticks("@every:1000", 1000, 10_000, 3) == [8000, 9000, 10_000]
    assert due_ticks("* * * * * *", 1000, 10_999, 3) == [8000, 9000, 10_000]


@pytest.mark.parametrize("spec", ["@every:1000", "* * * * * *"])
def test_what_was_announced_is_due_whatever_the_spec_says(spec: str) -> None:
    assert due_ticks(spec, 8000, 10_000, 9) == [8000, 9000, 10_000]
    assert due_ticks(spec, 8001, 10_000, 9) == [8001, 9000, 10_000]
    assert due_ticks(spec, 8001, 10_000, 2) == [9000, 10_000]
    assert due_ticks(spec, 9001, 9999, 1) == [9001]
    assert due_ticks(spec, 0, 2000, 9) == [1000, 2000], "no tick at the epoch itself"


def test_nothing_is_due_before_its_time() -> None:
    assert due_ticks("@every:1000", 10_000, 9999, 5) == []
    assert due_ticks("@every:1000", 10_000, 10_000, 5) == [10_000]


def test_of_many_ticks_the_oldest_are_taken_up_first() -> None:
    assert due_ticks("@every:1000", 1000, 10_000, 5, limit=2) == [6000, 7000]
    assert due_ticks("* * * * * *", 1000, 10_000, 5, limit=2) == [6000, 7000]
    assert due_ticks("* * * * * *", 1000, 10_000, 50, limit=2) == [1000, 2000]


@pytest.mark.parametrize("cap", [1, 2, 100, 1_000, 100_000, 2**31 - 1])
@pytest.mark.parametrize(
    "spec",
    [
        "@every:1",
        "@every:3600000",
        "* * * * * *",
        "*/5 * * * *",
        "0 9 * * MON-FRI",
        "0 0 29 2 *",
        "0 0 1 * MON",
        "CRON_TZ=America/New_York * * * * * *",
        "CRON_TZ=America/New_York 30 2 * * *",
    ],
)
def test_a_year_of_missed_ticks_takes_no_time(spec: str, cap: int) -> None:
    now = NEW_YEAR + YEAR_MS + 1
    first = next_after(spec, NEW_YEAR)
    best = min(_seconds(lambda: due_ticks(spec, first, now, cap)) for _ in range(3))
    assert best < 0.05
    found = due_ticks(spec, first, now, cap)
    assert first <= found[0] <= found[-1] <= now
    for one, other in pairwise(found):
        assert next_after(spec, one) == other
    if len(found) < 1_000:
        # Not cut short: nothing newer is left out, and nothing older unless the cap says so.
        assert next_after(spec, found[-1]) > now
        assert len(found) == cap or found[0] == first


def test_half_a_century_goes_by() -> None:
    now = at("2026-01-01 00:00")
    for spec in ("@every:1", "* * * * * *"):
        assert due_ticks(spec, 123, now, 1) == [now]
    assert _seconds(lambda: due_ticks("* * * * * *", 123, now, 2**31 - 1)) < 2


def test_the_days_of_a_change_have_their_own_number_of_ticks() -> None:
    zone = "America/New_York"
    spec = f"CRON_TZ={zone} */30 * * * *"
    for day, count in (("2024-03-10", 46), ("2024-03-11", 48), ("2024-11-03", 48)):
        first = at(f"{day} 00:00", zone)
        last = at(f"{day} 23:30", zone)
        found = due_ticks(spec, first, last, 10_000)
        assert (len(found), found[0], found[-1]) == (count, first, last)
        assert due_ticks(spec, first, last, count) == found
        assert due_ticks(spec, first, last, count - 1) == found[1:]


def test_in_the_second_pass_of_an_hour_the_first_one_is_due() -> None:
    zone = "America/New_York"
    now = at("2024-11-03 01:10", zone, fold=1)
    found = due_ticks(f"CRON_TZ={zone} */20 * * * *", now - 2 * HOUR_MS, now, 4)
    assert found == [
        at(f"2024-11-03 {clock}", zone) for clock in ("00:40", "01:00", "01:20", "01:40")
    ]


def test_the_next_day_may_have_begun_once_already() -> None:
    zone = "America/St_Johns"
    now = at("2010-11-06 23:30", zone, fold=1)
    assert due_ticks(f"CRON_TZ={zone} 0 0 * * *", now - DAY_MS + 1, now, 1) == [
        at("2010-11-07 00:00", zone)
    ]


def _seconds(work: object) -> float:
    assert callable(work)
    started = time.thread_time()
    work()
    return time.thread_time() - started
