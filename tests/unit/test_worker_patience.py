"""Delays that grow, logs that do not, and windows that forget."""

import logging

import pytest

from headgate import StoreUnavailable
from headgate.duties.outage import Backoff, OutageLog
from headgate.worker.polling import Patience, PollWindow


def test_delays_double_up_to_the_ceiling() -> None:
    backoff = Backoff(50, 2_000, jitter=0.0)
    assert [backoff.next_ms() for _ in range(7)] == [100, 200, 400, 800, 1600, 2000, 2000]
    backoff.reset()
    assert backoff.next_ms() == 100


def test_jitter_lengthens_and_never_passes_the_ceiling() -> None:
    backoff = Backoff(50, 300, jitter=0.2, draw=lambda: 0.5)
    assert [backoff.next_ms() for _ in range(3)] == pytest.approx([110, 220, 300])


def patience(floor_ms: float = 50) -> Patience:
    return Patience(Backoff(floor_ms, 2_000, jitter=0.0), draw=lambda: 0.0)


def test_a_rest_ends_with_the_refill_that_comes_before_its_end() -> None:
    resting = patience()
    refills = [1_950, 1_850, 1_650, 1_250, 450]
    assert [resting.rest_ms(refill) for refill in refills] == [100, 200, 400, 800, 450]
    resting.reset()
    assert resting.rest_ms(30) == 30


def test_whoever_finds_a_refill_taken_lets_the_next_pass() -> None:
    resting = patience(floor_ms=1_000)
    rests = [resting.rest_ms(150) for _ in range(6)]
    assert rests == [150, 2_000, 150, 2_000, 150, 2_000]
    resting.rest_ms(150)
    resting.reset()
    assert not resting.timed
    assert resting.rest_ms(150) == 150


def test_without_a_refill_rests_grow_as_ever() -> None:
    resting = patience()
    assert [resting.rest_ms(None) for _ in range(6)] == [100, 200, 400, 800, 1600, 2000]


def test_workers_that_wait_for_one_refill_are_spread_behind_it() -> None:
    resting = Patience(Backoff(1_000, 2_000), draw=lambda: 0.5)
    assert resting.rest_ms(1_000) == pytest.approx(1_010)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_bc_72_an_outage_of_a_minute_takes_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    log = OutageLog(logging.getLogger("test"), clock=clock)
    with caplog.at_level(logging.INFO):
        for tick in range(600):
            clock.now = tick / 10
            for loop in ("admission", "heartbeat", "duty"):
                log.failed(loop, StoreUnavailable("gone"))
        clock.now = 61.5
        log.succeeded()
        log.succeeded()
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0] == "admission: store unavailable: gone; waiting"
    assert lines[-1] == "the store answers again, after 61 s"
    assert len(lines) == 7, lines


def test_a_store_that_flickers_counts_as_away(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    log = OutageLog(logging.getLogger("test"), clock=clock)
    with caplog.at_level(logging.INFO):
        for tick in range(30):
            clock.now = tick / 10
            log.failed("admission", StoreUnavailable("gone"))
            log.succeeded()
    assert len(caplog.records) == 2


def test_the_poll_window_counts_the_last_128() -> None:
    window = PollWindow()
    for number in range(200):
        window.record(empty=number < 100)
    assert (window.polls, window.empty_polls) == (128, 28)
