"""A command of ours as a process of its own, which costs a fork and not a start of Python."""

import importlib
import logging
import os
import re
import runpy
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final, NamedTuple, NoReturn

from headgate.cli import main

LIMIT_S: Final = 30

# What the command imports with the first option that it reads, imported once for all forks.
importlib.import_module("pydantic.type_adapter")
importlib.import_module("pydantic.types")


class Ended(NamedTuple):
    """What is left of a process."""

    returncode: int
    stdout: str
    stderr: str


class Fork:
    """A function that runs in a process of its own, in this directory and environment."""

    def __init__(
        self,
        run: Callable[[], object],
        *,
        directory: Path,
        environment: Mapping[str, str],
        stdin: str = "",
    ) -> None:
        # Closed by `wait`.
        self._files = [TemporaryFile() for _ in range(3)]  # noqa: SIM115
        self._files[0].write(stdin.encode())
        self._files[0].seek(0)
        self._ended: Ended | None = None
        self.pid = os.fork()
        if self.pid == 0:
            for number, file in enumerate(self._files):
                os.dup2(file.fileno(), number)
            os.chdir(directory)
            become(run, environment)

    def send_signal(self, number: int) -> None:
        if self._ended is None:
            os.kill(self.pid, number)

    def kill(self) -> Ended:
        self.send_signal(signal.SIGKILL)
        return self.wait()

    def wait(self) -> Ended:
        """What it has said and how it ended, once it has."""
        return self._ended or self._end(os.waitpid(self.pid, 0)[1])

    def ended(self) -> Ended | None:
        """The same, or None while it runs."""
        if self._ended is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._end(status)
        return self._ended

    def _end(self, status: int) -> Ended:
        code = os.waitstatus_to_exitcode(status)
        self._ended = Ended(code, self._said(1), self._said(2))
        for file in self._files:
            file.close()
        return self._ended

    def said(self) -> str:
        """What has come to stdout so far, and to stderr."""
        if self._ended:
            return self._ended.stdout + self._ended.stderr
        return self._said(1) + self._said(2)

    def told(self) -> str:
        """What has come to stderr so far."""
        return self._said(2)

    def until_told(self, pattern: str) -> re.Match[str]:
        """Waits until there is on stderr what the pattern finds."""
        end = time.monotonic() + LIMIT_S
        while not (found := re.search(pattern, self.told())):
            assert time.monotonic() < end, self.told()
            time.sleep(0.01)
        return found

    def _said(self, number: int) -> str:
        # The process writes at the place where a seek would leave the file.
        descriptor = self._files[number].fileno()
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode()


def headgate(*arguments: str) -> Callable[[], object]:
    """What `headgate` does with these arguments."""

    def run() -> None:
        sys.argv = ["headgate", *arguments]
        sys.path.insert(0, os.getcwd())  # as `python -m headgate.cli` does
        main()

    return run


def anew(*arguments: str) -> Callable[[], object]:
    """The same in a Python of its own, for whoever weighs it."""
    command = (sys.executable, "-m", "headgate.cli", *arguments)
    return lambda: os.execv(sys.executable, command)


def python(file: str) -> Callable[[], object]:
    """What `python` does with a file of the directory."""

    def run() -> None:
        sys.argv = [file]
        sys.path.insert(0, os.getcwd())
        runpy.run_path(file, run_name="__main__")

    return run


def become(run: Callable[[], object], environment: Mapping[str, str]) -> NoReturn:
    """Ends this process, which is a fork, as one ends that has run the function."""
    code = 1
    try:
        os.environ.clear()
        os.environ.update(environment)
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w", 1), os.fdopen(2, "w", 1)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        # Those of the tests would be in the way of its own.
        logging.getLogger().handlers.clear()
        try:
            run()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
        _wait_for_threads()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _wait_for_threads() -> None:
    """As Python does before it ends, so that whoever relies on it, or must not, is found out."""
    threading._shutdown()  # type: ignore[attr-defined]  # there is no public way
