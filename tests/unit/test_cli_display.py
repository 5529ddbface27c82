"""How values look to people."""

import pytest

from headgate.cli.display import duration, header, shown
from headgate.cli.times import milliseconds


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("window_ms", 90_061_000, "1 d 1 h"),
        ("window_ms", 999, "999 ms"),
        ("window_ms", 60_000, "1 min"),
        ("time_to_drain_ms", None, "-"),
        ("paused", True, "yes"),
        ("arrival_rate", 1.0, "1.00"),
        ("queues", ["a", "b"], "a, b"),
        ("by_state", {"running": 2, "available": 1}, "running 2, available 1"),
        ("tags", [], "-"),
        ("enqueued_at_ms", 10**17, "100000000000000000"),
    ],
)
def test_a_value_is_shown_by_its_field(field: str, value: object, text: str) -> None:
    assert shown(field, value) == text


def test_headers_leave_out_what_the_value_says() -> None:
    assert [header(f) for f in ("heartbeat_at_ms", "window_ms", "at_ms", "job_kind")] == [
        "heartbeat",
        "window",
        "at",
        "job kind",
    ]


def test_durations_are_typed_and_shown() -> None:
    assert [milliseconds(t) for t in ("250ms", "90s", "5m", "5min", "2h", "7d", "42")] == [
        250,
        90_000,
        300_000,
        300_000,
        7_200_000,
        604_800_000,
        42,
    ]
    assert duration(604_800_000) == "7 d"
