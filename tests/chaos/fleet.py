"""Worker processes of one database, for tests that do them harm."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class Fleet:
    """Starts `headgate worker` with these arguments, as often as is needed."""

    def __init__(self, dsn: str, *arguments: str) -> None:
        self._arguments = arguments
        self._environment = {**os.environ, "HEADGATE_DATABASE_URL": dsn}
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self.processes.append(
            subprocess.Popen(
                [sys.executable, "-m", "headgate.cli", "worker", *self._arguments],
                env=self._environment,
            )
        )

    def victim(self) -> "subprocess.Popen[bytes]":
        """One of them, chosen by chance."""
        return random.choice(self.processes)

    def oldest(self) -> "subprocess.Popen[bytes]":
        """The one that most surely has work in hand by now."""
        return self.processes[0]

    def end_one(self, how: signal.Signals, victim: "subprocess.Popen[bytes] | None" = None) -> None:
        """Takes one out by a signal, and waits until it is gone."""
        victim = victim or self.victim()
        self.processes.remove(victim)
        victim.send_signal(how)
        victim.wait()

    def stop(self) -> list[int]:
        """Ends all of them in order; their exit codes."""
        for process in self.processes:
            process.terminate()
        return [process.wait(timeout=40) for process in self.processes]


@contextmanager
def fleet(dsn: str, *arguments: str) -> Iterator[Fleet]:
    """A fleet of which nothing is left afterwards."""
    running = Fleet(dsn, *arguments)
    try:
        yield running
    finally:
        for process in running.processes:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
