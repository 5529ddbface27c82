"""What workers in other processes have handled, in memory that they share with the bench."""

import mmap
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_WORD = 8


class Tally:
    """How many jobs one worker has handled, and how long after its enqueue each began."""

    def __init__(self, path: Path, jobs: int) -> None:
        with path.open("r+b") as file:
            file.truncate(_WORD * (jobs + 1))
            self._words = memoryview(mmap.mmap(file.fileno(), 0)).cast("q")

    @property
    def handled(self) -> int:
        return self._words[0]

    @property
    def waits_ms(self) -> list[float]:
        """From the enqueue to the handler, of jobs whose number is the instant of their enqueue."""
        return [wait / 1e6 for wait in self._words[1 : self.handled + 1]]

    def count(self, number: int) -> None:
        """One more. The clock is one for all processes of the machine."""
        words = self._words
        handled = words[0] + 1
        words[handled] = time.monotonic_ns() - number
        words[0] = handled


@contextmanager
def tally_file() -> Iterator[Path]:
    with tempfile.NamedTemporaryFile(prefix="headgate-tally-") as file:
        yield Path(file.name)
