"""Several processes behind one socket; one that ends is replaced."""

import asyncio
import logging
import os
import signal
import socket
import threading
from asyncio.subprocess import Process
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

_log = logging.getLogger("headgate.api")

_PAUSE_S: Final = 1
_ENDING: Final = (signal.SIGINT, signal.SIGTERM)


class Processes:
    """Runs `count` times the same command, to which the listening socket is handed over.

    The command gets two more arguments: the numbers of the socket and of a pipe that reads nothing
    and ends with this process, whatever ends it.
    """

    def __init__(self, command: Sequence[str], count: int, listening: socket.socket) -> None:
        self._command = command
        self._count = count
        self._listening = listening
        self._running: set[Process] = set()
        self._ending = asyncio.Event()

    async def run(self) -> None:
        """Runs them until SIGINT or SIGTERM, which are passed on, and all of them have ended."""
        loop = asyncio.get_running_loop()
        for number in _ENDING:
            loop.add_signal_handler(number, self._end)
        reading, writing = os.pipe()
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._count):
                    group.create_task(self._keep_running(reading))
        finally:
            os.close(writing)
            os.close(reading)
            for number in _ENDING:
                loop.remove_signal_handler(number)

    async def _keep_running(self, pipe: int) -> None:
        handed = (self._listening.fileno(), pipe)
        while not self._ending.is_set():
            # A group of its own: Ctrl-C reaches this process, which passes it on once.
            process = await asyncio.create_subprocess_exec(
                *self._command, *map(str, handed), pass_fds=handed, process_group=0
            )
            self._running.add(process)
            if self._ending.is_set():
                process.terminate()
            status = await process.wait()
            self._running.discard(process)
            if not self._ending.is_set():
                _log.error("process %d ended with %d; another one takes over", process.pid, status)
                with suppress(TimeoutError):
                    async with asyncio.timeout(_PAUSE_S):
                        await self._ending.wait()

    def _end(self) -> None:
        self._ending.set()
        for process in self._running:
            with suppress(ProcessLookupError):
                process.terminate()


def take_over(socket_number: int, pipe_number: int) -> socket.socket:
    """The listening socket in a process that was started so; it ends when its parent does."""
    listening = socket.socket(fileno=socket_number)
    watching = threading.Thread(
        target=_end_with_parent, args=(pipe_number,), name="headgate parent", daemon=True
    )
    watching.start()
    return listening


def _end_with_parent(pipe_number: int) -> None:
    os.read(pipe_number, 1)
    os.kill(os.getpid(), signal.SIGTERM)
