"""Stops asking a store that does not answer, and finds out carefully whether it is back."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum

import msgspec

from headgate.model.errors import CircuitOpen, InvalidRequest, StoreError, StoreUnavailable


class CircuitState(StrEnum):
    """Closed lets everything through, open nothing, half open a few probes."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class CircuitSnapshot(msgspec.Struct, frozen=True):
    """How a breaker stands. `retry_after_ms` is how long it stays open from now on."""

    state: CircuitState
    consecutive_failures: int
    half_open_successes: int
    half_open_in_flight: int
    retry_after_ms: int


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class CircuitBreaker:
    """Counts only outages: `StoreUnavailable`. Every other answer shows that the store is there.

    Closed, `failure_threshold` outages in a row open it. Open, it refuses for `recovery_timeout_ms`
    and is half open then: up to `half_open_max_calls` calls go through as probes. When that many
    were answered it closes; one outage opens it again. A probe that is cancelled counts as neither
    and makes room for another.

    One breaker may serve several clients of a process, from any thread. The clock is this process's
    own and monotonic: how long to leave a store alone is no instant that others must agree on.
    """

    def __init__(
        self,
        *,
        failure_threshold: int = 5,
        recovery_timeout_ms: int = 60_000,
        half_open_max_calls: int = 3,
        clock_ms: Callable[[], int] = _monotonic_ms,
    ) -> None:
        """Raises `InvalidRequest` for a number below 1."""
        for name, value in (
            ("failure_threshold", failure_threshold),
            ("recovery_timeout_ms", recovery_timeout_ms),
            ("half_open_max_calls", half_open_max_calls),
        ):
            if value < 1:
                raise InvalidRequest(f"{name} must be >= 1")
        self._failure_threshold = failure_threshold
        self._recovery_timeout_ms = recovery_timeout_ms
        self._half_open_max_calls = half_open_max_calls
        self._clock_ms = clock_ms
        self._lock = threading.Lock()
        self._state = CircuitState.CLOSED
        # What a call of an earlier phase finds out does not count in a later one.
        self._generation = 0
        self._failures = 0
        self._successes = 0
        self._in_flight = 0
        self._opened_at_ms = 0

    @contextmanager
    def permit(self) -> Iterator[None]:
        """Lets one call to the store through, made inside this block, and learns from how it ends.

        Raises `CircuitOpen` instead when it must not be made.
        """
        generation = self._acquire()
        answered: bool | None = None
        try:
            yield
            answered = True
        except StoreUnavailable:
            answered = False
            raise
        except StoreError:
            answered = True
            raise
        finally:
            self._settle(generation, answered)

    def snapshot(self) -> CircuitSnapshot:
        """How it stands now."""
        with self._lock:
            self._let_time_pass()
            return CircuitSnapshot(
                state=self._state,
                consecutive_failures=self._failures,
                half_open_successes=self._successes,
                half_open_in_flight=self._in_flight,
                retry_after_ms=self._retry_after_ms(),
            )

    def _acquire(self) -> int:
        with self._lock:
            self._let_time_pass()
            if self._state is CircuitState.OPEN:
                raise CircuitOpen(self._state, retry_after_ms=self._retry_after_ms())
            if self._state is CircuitState.HALF_OPEN:
                if self._successes + self._in_flight >= self._half_open_max_calls:
                    raise CircuitOpen(self._state, retry_after_ms=0)
                self._in_flight += 1
            return self._generation

    def _settle(self, generation: int, answered: bool | None) -> None:
        """Takes up how a call ended: answered, in an outage, or (None) without a verdict."""
        with self._lock:
            if generation != self._generation:
                return
            if self._state is CircuitState.HALF_OPEN:
                self._in_flight -= 1
                if answered:
                    self._successes += 1
                    if self._successes >= self._half_open_max_calls:
                        self._enter(CircuitState.CLOSED)
                elif answered is False:
                    self._enter(CircuitState.OPEN)
            elif answered:
                self._failures = 0
            elif answered is False:
                self._failures += 1
                if self._failures >= self._failure_threshold:
                    self._enter(CircuitState.OPEN)

    def _let_time_pass(self) -> None:
        if self._state is CircuitState.OPEN and not self._retry_after_ms():
            self._enter(CircuitState.HALF_OPEN)

    def _retry_after_ms(self) -> int:
        if self._state is not CircuitState.OPEN:
            return 0
        return max(0, self._opened_at_ms + self._recovery_timeout_ms - self._clock_ms())

    def _enter(self, state: CircuitState) -> None:
        self._state = state
        self._generation += 1
        self._successes = self._in_flight = 0
        if state is CircuitState.OPEN:
            self._opened_at_ms = self._clock_ms()
        else:
            self._failures = 0
