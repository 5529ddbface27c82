"""The circuit breaker, on a clock of the test."""

import asyncio
import threading
from contextlib import ExitStack, suppress

import pytest

from headgate.client.circuit_breaker import CircuitBreaker, CircuitSnapshot, CircuitState
from headgate.model.errors import (
    BackendError,
    Backpressure,
    CircuitOpen,
    DuplicateJob,
    FingerprintQuarantined,
    InvalidRequest,
    StoreRefused,
    StoreUnavailable,
)

ANSWERS = (
    None,
    DuplicateJob("x"),
    Backpressure("q", limit=1, current=1, incoming=1),
    FingerprintQuarantined("f"),
    InvalidRequest("no"),
    BackendError("value out of range"),
)


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> CircuitBreaker:
    return CircuitBreaker(clock_ms=clock)


def call(breaker: CircuitBreaker, error: BaseException | None = None) -> None:
    with suppress(*([type(error)] if error else [])), breaker.permit():
        if error is not None:
            raise error


def fail(breaker: CircuitBreaker, times: int = 1) -> None:
    for _ in range(times):
        call(breaker, StoreUnavailable("no connection"))


def refused(breaker: CircuitBreaker) -> tuple[str, int]:
    with pytest.raises(CircuitOpen) as refusal, breaker.permit():
        raise AssertionError("it was let through")
    return refusal.value.state, refusal.value.retry_after_ms


def test_five_outages_in_a_row_open_it(breaker: CircuitBreaker) -> None:
    fail(breaker, 4)
    assert breaker.snapshot() == CircuitSnapshot(CircuitState.CLOSED, 4, 0, 0, 0)
    fail(breaker)
    assert breaker.snapshot().state == "open"
    assert refused(breaker) == ("open", 60_000)


def test_a_refusal_of_access_is_an_outage(breaker: CircuitBreaker) -> None:
    for _ in range(5):
        call(breaker, StoreRefused("access refused"))
    assert breaker.snapshot().state == "open"


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda each: type(each).__name__)
def test_any_answer_of_the_store_starts_the_count_anew(
    breaker: CircuitBreaker, answer: BaseException | None
) -> None:
    fail(breaker, 4)
    call(breaker, answer)
    assert breaker.snapshot().consecutive_failures == 0
    fail(breaker, 4)
    assert breaker.snapshot().state == "closed"


@pytest.mark.parametrize("verdictless", [asyncio.CancelledError(), RuntimeError("a bug")])
def test_what_is_no_answer_does_not_count(
    breaker: CircuitBreaker, verdictless: BaseException
) -> None:
    fail(breaker, 4)
    call(breaker, verdictless)
    assert breaker.snapshot().consecutive_failures == 4


def test_it_is_open_until_the_last_millisecond(breaker: CircuitBreaker, clock: Clock) -> None:
    fail(breaker, 5)
    clock.now_ms += 59_999
    assert refused(breaker) == ("open", 1)
    clock.now_ms += 1
    call(breaker)
    assert breaker.snapshot() == CircuitSnapshot(CircuitState.HALF_OPEN, 0, 1, 0, 0)


def test_a_look_alone_makes_it_half_open(breaker: CircuitBreaker, clock: Clock) -> None:
    fail(breaker, 5)
    clock.now_ms += 60_000
    assert breaker.snapshot().state == "half_open"


def test_half_open_lets_three_through_and_closes_when_they_are_answered(
    breaker: CircuitBreaker, clock: Clock
) -> None:
    fail(breaker, 5)
    clock.now_ms += 60_000
    with ExitStack() as probes:
        for _ in range(3):
            probes.enter_context(breaker.permit())
        assert refused(breaker) == ("half_open", 0)
        assert breaker.snapshot().half_open_in_flight == 3
    assert breaker.snapshot() == CircuitSnapshot(CircuitState.CLOSED, 0, 0, 0, 0)


def test_answers_count_against_the_number_of_probes(breaker: CircuitBreaker, clock: Clock) -> None:
    fail(breaker, 5)
    clock.now_ms += 60_000
    call(breaker)
    call(breaker, DuplicateJob("x"))
    with breaker.permit():
        assert refused(breaker) == ("half_open", 0)
    assert breaker.snapshot().state == "closed"


def test_one_outage_opens_it_again_for_the_whole_time(
    breaker: CircuitBreaker, clock: Clock
) -> None:
    fail(breaker, 5)
    clock.now_ms += 60_000
    call(breaker)
    fail(breaker)
    clock.now_ms += 59_999
    assert refused(breaker) == ("open", 1)


@pytest.mark.parametrize("verdictless", [asyncio.CancelledError(), RuntimeError("a bug")])
def test_a_cancelled_probe_makes_room_and_counts_as_neither(
    breaker: CircuitBreaker, clock: Clock, verdictless: BaseException
) -> None:
    fail(breaker, 5)
    clock.now_ms += 60_000
    for _ in range(10):
        call(breaker, verdictless)
    assert breaker.snapshot() == CircuitSnapshot(CircuitState.HALF_OPEN, 0, 0, 0, 0)


def test_a_late_success_of_an_older_probe_does_not_close_it(
    breaker: CircuitBreaker, clock: Clock
) -> None:
    fail(breaker, 5)
    clock.now_ms += 60_000
    late = [breaker.permit() for _ in range(2)]
    for probe in late:
        probe.__enter__()
    fail(breaker)
    clock.now_ms += 60_000
    call(breaker)
    for probe in late:
        probe.__exit__(None, None, None)
    assert breaker.snapshot() == CircuitSnapshot(CircuitState.HALF_OPEN, 0, 1, 0, 0)


def test_a_late_outage_of_the_closed_phase_does_not_open_it_again(
    breaker: CircuitBreaker, clock: Clock
) -> None:
    late = breaker.permit()
    late.__enter__()
    fail(breaker, 5)
    clock.now_ms += 60_000
    for _ in range(3):
        call(breaker)
    assert not late.__exit__(*exception_info(StoreUnavailable("late")))
    assert breaker.snapshot() == CircuitSnapshot(CircuitState.CLOSED, 0, 0, 0, 0)


def exception_info(error: BaseException) -> tuple[type[BaseException], BaseException, None]:
    return type(error), error, None


def test_threads_share_it(breaker: CircuitBreaker, clock: Clock) -> None:
    fail(breaker, 5)
    clock.now_ms += 60_000
    inside, leave = threading.Barrier(4), threading.Event()
    through: list[bool] = []

    def probe() -> None:
        try:
            with breaker.permit():
                through.append(True)
                inside.wait(5)
                leave.wait(5)
        except CircuitOpen:
            through.append(False)

    threads = [threading.Thread(target=probe) for _ in range(8)]
    for thread in threads:
        thread.start()
    inside.wait(5)
    leave.set()
    for thread in threads:
        thread.join(5)
    assert sorted(through) == [False] * 5 + [True] * 3
    assert breaker.snapshot().state == "closed"


@pytest.mark.parametrize(
    "name", ["failure_threshold", "recovery_timeout_ms", "half_open_max_calls"]
)
def test_numbers_below_one_are_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match=f"{name} must be >= 1"):
        CircuitBreaker(**{name: 0})  # type: ignore[arg-type] # names of numbers only
