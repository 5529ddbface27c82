"""How to wait for a database that is away: longer each time, and without filling the log."""

import logging
import random
import threading
import time
from collections.abc import Callable
from typing import Final

from headgate.model.errors import StoreUnavailable

_FIRST_LINE_MS: Final = 1_000
_LAST_LINE_MS: Final = 60_000


class Backoff:
    """Delays that double from `floor_ms` to `ceiling_ms`, each of them up to `jitter` longer.

    The ceiling is never exceeded. With a floor of 50, a multiplier of 2 and no jitter the series is
    100, 200, 400 and so on.
    """

    def __init__(
        self,
        floor_ms: float,
        ceiling_ms: float,
        *,
        multiplier: float = 2.0,
        jitter: float = 0.2,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self.floor_ms = floor_ms
        self._ceiling_ms = ceiling_ms
        self._multiplier = multiplier
        self._jitter = jitter
        self._draw = draw
        self._current_ms = floor_ms

    def reset(self) -> None:
        """The next delay is the first one again."""
        self._current_ms = self.floor_ms

    def next_ms(self) -> float:
        """The next delay."""
        self._current_ms = min(self._current_ms * self._multiplier, self._ceiling_ms)
        return min(self._current_ms * (1 + self._jitter * self._draw()), self._ceiling_ms)


class OutageLog:
    """One voice for everything in a process that fails while the store is away.

    The first failure is a line, then one when the outage has lasted a second, two, four and so on,
    at most one a minute; and one when the store answers again. A store that comes and goes within a
    second counts as away.
    """

    def __init__(
        self, logger: logging.Logger, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._logger = logger
        self._clock = clock
        self._lock = threading.Lock()
        self._since: float | None = None
        self._last_failure = 0.0
        self._next_line = 0.0
        self._gap_ms = _FIRST_LINE_MS

    def failed(self, what: str, error: StoreUnavailable) -> None:
        """Notes that `what` failed. From any thread."""
        now = self._clock()
        with self._lock:
            self._last_failure = now
            first = self._since is None
            since = self._since = now if self._since is None else self._since
            if not first and now < self._next_line:
                return
            self._gap_ms = _FIRST_LINE_MS if first else min(self._gap_ms * 2, _LAST_LINE_MS)
            self._next_line = now + self._gap_ms / 1000
        if first:
            self._logger.warning("%s: %s; waiting", what, error)
        else:
            self._logger.warning("%s: %s, for %d s now", what, error, now - since)

    def succeeded(self) -> None:
        """Notes that the store answered. From any thread."""
        if self._since is None:
            return
        now = self._clock()
        with self._lock:
            since = self._since
            if since is None or now - self._last_failure < _FIRST_LINE_MS / 1000:
                return
            self._since = None
        self._logger.info("the store answers again, after %d s", now - since)
