"""`headgate worker` as a process of its own."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

_CHECKOUT = Path(__file__).parents[2]
MODULE = "handlers"


class WorkerProcess:
    """The command in a directory that holds one module of handlers."""

    def __init__(
        self, directory: Path, source: str, dsn: str, *arguments: str, application: str
    ) -> None:
        (directory / f"{MODULE}.py").write_text(source)
        self._log = (directory / f"worker-{time.monotonic_ns()}.log").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "headgate.cli", "worker", application, *arguments],
            cwd=directory,
            env={**os.environ, "PYTHONPATH": str(_CHECKOUT), "HEADGATE_DATABASE_URL": dsn},
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )

    @property
    def output(self) -> str:
        return Path(self._log.name).read_text()

    @property
    def status(self) -> int | None:
        """How it ended; None while it runs."""
        return self._process.poll()

    def says(self, text: str) -> bool:
        return text in self.output

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def ended(self, limit_ms: int) -> int:
        """The exit status, which must come within the limit."""
        return self._process.wait(limit_ms / 1000)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()
