"""What is no spec, in which words it is refused, and what a hostile one costs."""

import time
import tracemalloc
from datetime import UTC

import pytest

from headgate.model.errors import InvalidRequest
from headgate.model.schedule import MAX_SPEC_BYTES, validate

WANT = "want 5 fields, or 6 with seconds"


def refusal(spec: str) -> str:
    with pytest.raises(InvalidRequest) as error:
        validate(spec)
    return error.value.message


@pytest.mark.parametrize(
    "spec",
    [
        "@every:1",
        "@every:+5",
        "@every:253402300799999",
        " 0  9\t* * * ",
        "CRON_TZ=America/Argentina/Buenos_Aires 0 9 * * *",
        "CRON_TZ=Etc/GMT+5 0 9 * * *",
        "CRON_TZ=GB-Eire 00 09 * * *",
        "0 9 * jan-Mar,12 mon",
        "0-59/7,3 */23 1-31 1-12 0-7",
    ],
)
def test_a_spec(spec: str) -> None:
    validate(spec)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("", f"bad cron ``: {WANT}"),
        ("not a cron", f"bad cron `not a cron`: {WANT}"),
        ("* * * * * * *", f"bad cron `* * * * * * *`: {WANT}"),
        ("@daily", f"bad cron `@daily`: {WANT}"),
        ("TZ=UTC 0 9 * *", "bad cron `TZ=UTC 0 9 * *`: minute `TZ=UTC` is not understood"),
        ("CRON_TZ=UTC", f"bad cron `CRON_TZ=UTC`: {WANT}"),
        ("CRON_TZ=UTC 9 * *", f"bad cron `CRON_TZ=UTC 9 * *`: {WANT}"),
        ("@every:", "bad @every spec `@every:`"),
        ("@every:abc", "bad @every spec `@every:abc`"),
        ("@every:1_0", "bad @every spec `@every:1_0`"),
        ("@every:1.5", "bad @every spec `@every:1.5`"),
        ("@every: 5", "bad @every spec `@every: 5`"),
        ("@every:\u0665", "bad @every spec `@every:\u0665`"),
        ("@every:0", "@every period must be >= 1ms"),
        ("@every:-5", "@every period must be >= 1ms"),
        ("@every:253402300800000", "@every period is too large"),
        (
            "CRON_TZ=UTC @every:60000",
            "`@every` is epoch-aligned UTC and takes no CRON_TZ: `CRON_TZ=UTC @every:60000`",
        ),
        ("CRON_TZ=Mars/Phobos 0 9 * * *", "unknown timezone `Mars/Phobos`"),
        ("CRON_TZ=america/new_york 0 9 * * *", "unknown timezone `america/new_york`"),
        ("CRON_TZ= 0 9 * * *", "unknown timezone ``"),
        ("CRON_TZ=America 0 9 * * *", "unknown timezone `America`"),
        ("CRON_TZ=America/ 0 9 * * *", "unknown timezone `America/`"),
        ("CRON_TZ=../UTC 0 9 * * *", "unknown timezone `../UTC`"),
        ("CRON_TZ=/UTC 0 9 * * *", "unknown timezone `/UTC`"),
        (f"CRON_TZ={'A' * 65} 0 9 * * *", f"unknown timezone `{'A' * 65}`"),
        ("99 * * * *", "bad cron `99 * * * *`: minute `99` is not between 0 and 59"),
        ("0 24 * * *", "bad cron `0 24 * * *`: hour `24` is not between 0 and 23"),
        ("0 0 0 * *", "bad cron `0 0 0 * *`: day of month `0` is not between 1 and 31"),
        ("0 0 * 13 *", "bad cron `0 0 * 13 *`: month `13` is not between 1 and 12"),
        ("0 0 * * 8", "bad cron `0 0 * * 8`: day of week `8` is not between 0 and 7"),
        ("60 * * * * *", "bad cron `60 * * * * *`: second `60` is not between 0 and 59"),
        ("0 0 L * *", "bad cron `0 0 L * *`: day of month `L` is not understood"),
        ("0 0 15W * *", "bad cron `0 0 15W * *`: day of month `15W` is not understood"),
        ("0 0 * * 5#2", "bad cron `0 0 * * 5#2`: day of week `5#2` is not understood"),
        ("0 0 * * 5L", "bad cron `0 0 * * 5L`: day of week `5L` is not understood"),
        ("0 0 MON * *", "bad cron `0 0 MON * *`: day of month `MON` is not understood"),
        ("0 0 * * 6-2", "bad cron `0 0 * * 6-2`: day of week range `6-2` ends before it begins"),
        ("9-5 * * * *", "bad cron `9-5 * * * *`: minute range `9-5` ends before it begins"),
        ("*/0 * * * *", "bad cron `*/0 * * * *`: step `0` of minute is not between 1 and 59"),
        ("*/90 * * * *", "bad cron `*/90 * * * *`: step `90` of minute is not between 1 and 59"),
        ("*/ * * * *", "bad cron `*/ * * * *`: minute `` is not understood"),
        ("1,,2 * * * *", "bad cron `1,,2 * * * *`: minute `` is not understood"),
        ("-1 * * * *", "bad cron `-1 * * * *`: minute `` is not understood"),
        ("1_0 * * * *", "bad cron `1_0 * * * *`: minute `1_0` is not understood"),
        ("\u0663 * * * *", "bad cron `\u0663 * * * *`: minute `\u0663` is not understood"),
        ("0 9 * * \0", "spec must not contain NUL"),
        ("0 9 * * \ud800", "spec must not contain lone surrogates"),
    ],
)
def test_no_spec(spec: str, message: str) -> None:
    assert refusal(spec) == message


@pytest.mark.parametrize(
    "spec",
    [
        "0-99999999999 * * * *",
        "*/0 * * * *",
        "," * 100_000,
        "0," * 50_000 + "0 * * * *",
        "9" * 100_000 + " * * * *",
        "0-59/" + "9" * 1_000 + " * * * *",
        "@every:" + "9" * 100_000,
        "CRON_TZ=" + "A/" * 50_000 + " * * * * *",
        "* " * 50_000,
    ],
    ids=lambda spec: spec[:20],
)
def test_bc_52_a_hostile_spec_costs_nothing(spec: str) -> None:
    tracemalloc.start()
    try:
        started = time.thread_time()
        message = refusal(spec)
        assert time.thread_time() - started < 0.1
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert len(message) < 2_100


@pytest.mark.parametrize(
    "name", ["posixrules", "right/UTC", "Etc/utc", "America/", "A//B", "A.B", "É", "A" * 65]
)
def test_a_zone_has_a_proper_name_whatever_the_system_has(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("headgate.model.schedule.ZoneInfo", lambda name: UTC)
    assert refusal(f"CRON_TZ={name} 1 9 * * *") == f"unknown timezone `{name}`"
    validate("CRON_TZ=Any/Proper-Name_1+2 1 9 * * *")


def test_the_length_of_a_spec() -> None:
    longest = "0 9 * * *".ljust(MAX_SPEC_BYTES)
    validate(longest)
    assert refusal(longest + " ") == f"spec must be at most {MAX_SPEC_BYTES} bytes"
