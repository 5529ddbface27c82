"""When to ask again for work after an answer that left slots free, and how often it was in vain."""

import random
from collections import deque
from collections.abc import Callable
from typing import Final

from headgate.duties.outage import Backoff

_WINDOW: Final = 128
# Of a refill: workers that wait for the same one should not all look at the same instant.
_SPREAD: Final = 0.02


class Patience:
    """How long to rest after answers without jobs: longer each time, as `backoff` has it, but not
    past the refill of a rate class that something waits for.

    A refill is enough for one worker. Whoever looks right after it and finds it taken rests as if
    there were none, before it waits for a refill again: however many workers wait for one class,
    those who get nothing of it look at most twice as often as they would without it.
    """

    def __init__(self, backoff: Backoff, *, draw: Callable[[], float] = random.random) -> None:
        self._backoff = backoff
        self._draw = draw
        self.timed = False

    def reset(self) -> None:
        """There was work, or there may be now."""
        self._backoff.reset()
        self.timed = False

    def rest_ms(self, refill_ms: int | None) -> float:
        """The next rest, given in how many milliseconds a rate class holds what is waited for.

        That does not matter while `timed` says that the last rest was cut short for a refill.
        """
        rest_ms = self._backoff.next_ms()
        due_ms = rest_ms
        if refill_ms is not None and not self.timed:
            due_ms = refill_ms * (1 + _SPREAD * self._draw())
        self.timed = due_ms < rest_ms
        return min(due_ms, rest_ms)


class PollWindow:
    """The last 128 admissions of a worker: a fleet that mostly polls in vain is too large."""

    def __init__(self) -> None:
        self._empty: deque[bool] = deque(maxlen=_WINDOW)
        self.empty_polls = 0

    @property
    def polls(self) -> int:
        return len(self._empty)

    def record(self, *, empty: bool) -> None:
        if len(self._empty) == _WINDOW:
            self.empty_polls -= self._empty[0]
        self._empty.append(empty)
        self.empty_polls += empty
