"""`headgate` in a terminal of its own: it sees a tty, and somebody who types."""

import fcntl
import importlib
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping
from typing import Self

from headgate.cli.main import NOUNS
from tests.forks import become
from tests.forks import headgate as command

LIMIT_S = 30

# Imported once here, and not by each fork.
for noun in (*NOUNS, "jobs-import"):
    importlib.import_module(f"headgate.cli.{noun.replace('-', '_')}")

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


class Terminal:
    """One run of the command, from its start to its end.

    The process is a fork: it is the whole command, without the time that an interpreter takes.
    """

    def __init__(self, *arguments: str, environment: Mapping[str, str], columns: int = 200) -> None:
        self.output = ""
        self.code: int | None = None
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            become(command(*arguments), environment)
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.code is None:
            os.kill(self._pid, signal.SIGKILL)
            self.end()
        os.close(self._terminal)

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def until(self, pattern: str) -> None:
        """Waits for what is to be seen."""
        end = time.monotonic() + LIMIT_S
        while not re.search(pattern, self.output):
            assert time.monotonic() < end, self.output
            assert self._read(end), f"{pattern} was not seen in: {self.output}"

    def end(self) -> str:
        """Waits for the end; what was to be seen, without what only moves the cursor."""
        end = time.monotonic() + LIMIT_S
        while self._read(end):
            assert time.monotonic() < end, self.output
        if self.code is None:
            self.code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        return self.output

    def _read(self, end: float) -> bool:
        ready, _, _ = select.select([self._terminal], [], [], max(0.0, end - time.monotonic()))
        try:
            read = os.read(self._terminal, 65_536) if ready else b""
        except OSError:  # how Linux says that the other side is gone
            return False
        self.output += _CONTROL.sub("", read.decode(errors="replace"))
        return bool(read)
