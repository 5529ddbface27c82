"""When to ask again for work after an answer that left slots free, and how often it was in vain."""

from collections import deque
from typing import Final

_WINDOW: Final = 128


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
