"""`headgate worker` as a process of its own."""

import os
import signal
import time
from pathlib import Path

from tests.forks import Ended, Fork, headgate

MODULE = "handlers"


class WorkerProcess:
    """The command in a directory that holds one module of handlers."""

    def __init__(
        self, directory: Path, source: str, dsn: str, *arguments: str, application: str
    ) -> None:
        (directory / f"{MODULE}.py").write_text(source)
        self._process = Fork(
            headgate("worker", application, *arguments),
            directory=directory,
            environment={**os.environ, "HEADGATE_DATABASE_URL": dsn},
        )

    @property
    def output(self) -> str:
        return self._process.said()

    @property
    def status(self) -> int | None:
        """How it ended; None while it runs."""
        ended = self._process.ended()
        return ended.returncode if ended else None

    def says(self, text: str) -> bool:
        return text in self.output

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def ended(self, limit_ms: int) -> int:
        """The exit status, which must come within the limit."""
        deadline = time.monotonic() + limit_ms / 1000
        while (status := self.status) is None:
            assert time.monotonic() < deadline, self.output
            time.sleep(0.01)
        return status

    def kill(self) -> Ended:
        return self._process.kill()
