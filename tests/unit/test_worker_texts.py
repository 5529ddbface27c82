"""What is written down about a handler that failed, and what a handler writes itself."""

from typing import Any

import msgspec
import pytest

from headgate import InvalidRequest, RateLimited, Retry, Snooze
from headgate.model.job import Claim
from headgate.worker.context import JobContext, stored_result
from headgate.worker.failures import failure_text


def raised_by(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as raised:
        return raised


def test_the_text_says_what_and_where() -> None:
    lines = failure_text(raised_by(ValueError("no"))).splitlines()
    assert lines[0] == "ValueError: no"
    assert "in raised_by" in lines[1]


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (SystemExit(3), "panic: SystemExit: 3"),
        (KeyboardInterrupt(), "panic: KeyboardInterrupt"),
        (RecursionError("deep"), "panic: RecursionError: deep"),
        (MemoryError(), "panic: MemoryError"),
        (ValueError("a\0b"), "ValueError: ab"),
        (ValueError("\ud800"), "ValueError: \ufffd"),
    ],
)
def test_the_first_line(error: BaseException, line: str) -> None:
    assert failure_text(raised_by(error)).splitlines()[0] == line


def test_bc_56_a_huge_text_is_cut() -> None:
    text = failure_text(raised_by(ValueError("x" * 2_000_000)))
    assert len(text.encode()) <= 16_384
    assert " [cut]" in text


def test_an_exception_without_a_text_still_has_a_name() -> None:
    class Rude(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    assert failure_text(Rude()).splitlines()[0].endswith("Rude: (its text cannot be had)")


async def extend(_: int) -> None: ...


def claim(**fields: Any) -> Claim:
    names: dict[str, Any] = {
        field.name: 0 if field.type is int else "" for field in msgspec.structs.fields(Claim)
    }
    return Claim(**{**names, "headers": {"h": "v"}, **fields})


def test_the_context_keeps_a_hundred_lines_of_two_kib() -> None:
    context = JobContext(claim(), "w", extend)
    for number in range(103):
        context.log(f"{number}\0" + "x" * 5_000)
    assert len(context.logs) == 101
    assert context.logs[0].startswith("0xx")
    assert all(len(line) <= 2_048 for line in context.logs)
    assert context.logs[100] == "[only the first 100 lines are kept]"


def test_a_result_is_bytes_or_becomes_json() -> None:
    assert stored_result(b"\0\xff", 2).bytes == b"\0\xff"
    assert stored_result({"x": "\0"}).bytes == b'{"x":"\\u0000"}'
    with pytest.raises(InvalidRequest, match="not encodable"):
        stored_result(object())
    with pytest.raises(InvalidRequest, match="at most 33554432 bytes"):
        stored_result(b"x" * (32 * 1_048_576 + 1))
    with pytest.raises(InvalidRequest, match="schema version"):
        stored_result(b"", 0)


def test_delays_of_outcomes_are_judged_where_they_are_made() -> None:
    assert Snooze(delay_ms=5).delay_ms == 5
    assert RateLimited().delay_ms == 1_000
    assert Retry(after_ms=7).delay_ms == 7
    with pytest.raises(InvalidRequest, match="snooze delay must be at least 1 ms"):
        Snooze(delay_ms=0)
    with pytest.raises(TypeError, match="needs a delay"):
        Snooze()


def test_a_broad_except_does_not_swallow_an_outcome() -> None:
    def handler() -> None:
        try:
            raise Snooze(delay_ms=5)
        except Exception:
            return

    with pytest.raises(Snooze):
        handler()
