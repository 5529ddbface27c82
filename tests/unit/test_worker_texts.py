"""What is written down about a handler that failed, and what a handler writes itself."""

import logging
from concurrent.futures import ThreadPoolExecutor

import pytest

from headgate import InvalidRequest, RateLimited, Retry, Snooze
from headgate.worker.attempt_log import AttemptLog, JobLogger
from headgate.worker.failures import failure_text
from headgate.worker.record import stored_result


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


def test_of_an_attempt_a_hundred_lines_of_two_kib_are_kept() -> None:
    log = AttemptLog()
    for number in range(103):
        log.write(f"{number}\0" + "x" * 5_000)
    assert len(log.lines) == 101
    assert log.lines[0].startswith("0xx")
    assert all(len(line) <= 2_048 for line in log.lines)
    assert log.lines[100] == "[only the first 100 lines are kept]"


def test_many_threads_fill_a_log_no_further() -> None:
    log = AttemptLog()
    with ThreadPoolExecutor(16) as threads:
        for number in range(200):
            threads.submit(log.write, str(number))
    assert 101 <= len(log.lines) <= 101 + 16
    log.close()
    kept = log.lines
    log.write("late")
    assert log.lines == kept


def test_a_logger_keeps_lines_with_their_fields(caplog: pytest.LogCaptureFixture) -> None:
    log = AttemptLog()
    logger = JobLogger(log, "j", "mail")
    with caplog.at_level(logging.DEBUG):
        logger.debug("looked up")
        logger.info("sent to %d", 3, recipient="a@b", copies=2)
        logger.warning("odd %d", "no number")
    assert log.lines == (
        "INFO sent to 3 copies=2 recipient=a@b",
        "WARNING odd %d ('no number',)",
    )
    assert [record.message for record in caplog.records][:2] == ["looked up", "sent to 3"]
    record = caplog.records[1]
    assert (record.job_id, record.fields) == (  # type: ignore[attr-defined]  # put there by extra
        "j",
        {"copies": 2, "recipient": "a@b"},
    )
    assert record.funcName == "test_a_logger_keeps_lines_with_their_fields"


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
