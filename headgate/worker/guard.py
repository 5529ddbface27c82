"""Sees to it that the processes of a worker do not outlive it, even when it is killed.

A killed worker cannot end anything. So another process watches it, which is started with the first
that is to be guarded, and notices by a pipe that the worker is gone. That works on every system,
and reaches what the guarded processes have started too.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Final

from headgate.worker import guardian

_PROGRAM: Final = (sys.executable, "-I", "-S", guardian.__file__)


class ProcessGuard:
    """The processes of one worker that lead a group of their own."""

    def __init__(self) -> None:
        self._guardian: subprocess.Popen[bytes] | None = None
        self._groups: set[int] = set()

    def watch(self, pid: int) -> None:
        """The group of this process is to end with the worker."""
        self._groups.add(pid)
        self._tell(f"+{pid}\n")

    def end(self, pid: int) -> None:
        """Kills the group, whatever is left of it, and forgets it."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        self._groups.discard(pid)
        self._tell(f"-{pid}\n")

    def close(self) -> None:
        """Ends the guardian; what it still has, it kills."""
        if self._guardian is not None:
            self._guardian.communicate()

    def _tell(self, line: str) -> None:
        if self._guardian is not None and self._guardian.stdin is not None:
            try:
                self._guardian.stdin.write(line.encode())
            except BrokenPipeError:
                # Somebody has killed it.
                self._guardian.wait()
            else:
                return
        self._guardian = subprocess.Popen(
            _PROGRAM, stdin=subprocess.PIPE, bufsize=0, start_new_session=True
        )
        assert self._guardian.stdin is not None
        self._guardian.stdin.write("".join(f"+{pid}\n" for pid in self._groups).encode())
