"""Worker processes of one database, for tests that do them harm."""

import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.forks import Fork, headgate


class Fleet:
    """Starts `headgate worker` with these arguments, as often as is needed."""

    def __init__(self, dsn: str, *arguments: str) -> None:
        self._arguments = arguments
        self._environment = {**os.environ, "HEADGATE_DATABASE_URL": dsn}
        self.processes: list[Fork] = []

    def start(self, *arguments: str) -> Fork:
        """One more, with these arguments besides."""
        process = Fork(
            headgate("worker", *self._arguments, *arguments),
            directory=Path.cwd(),
            environment=self._environment,
        )
        self.processes.append(process)
        return process

    def victim(self) -> Fork:
        """One of them, chosen by chance."""
        return random.choice(self.processes)

    def oldest(self) -> Fork:
        """The one that most surely has work in hand by now."""
        return self.processes[0]

    def end_one(self, how: signal.Signals, victim: Fork | None = None) -> None:
        """Takes one out by a signal, and waits until it is gone."""
        victim = victim or self.victim()
        self.processes.remove(victim)
        victim.send_signal(how)
        victim.wait()

    def stop(self) -> list[int]:
        """Ends all of them in order; their exit codes."""
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        return [process.wait().returncode for process in self.processes]


@contextmanager
def fleet(dsn: str, *arguments: str) -> Iterator[Fleet]:
    """A fleet of which nothing is left afterwards."""
    running = Fleet(dsn, *arguments)
    try:
        yield running
    finally:
        for process in running.processes:
            process.kill()
