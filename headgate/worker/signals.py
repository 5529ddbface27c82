"""Signals as a worker's commands.

`SIGTERM` and `SIGINT` drain, a second one releases at once; `SIGUSR1` stops taking jobs, `SIGUSR2`
takes them again.
"""

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from headgate.worker.worker import Worker

_UNRESPONSIVE_MS: Final = 1_200
EXIT_UNRESPONSIVE: Final = 1

_ENDING: Final = frozenset({signal.SIGTERM, signal.SIGINT})
_SIGNALS: Final = (*_ENDING, signal.SIGUSR1, signal.SIGUSR2)


@contextmanager
def obeying_signals(worker: Worker) -> Iterator[None]:
    """Signals mean commands inside this block, which belongs on the main thread's event loop.

    They reach the worker also while a handler blocks that loop: on the second signal, a loop that
    does not react in time is given up, its jobs are released, and the process exits.
    """
    # A handler written in Python runs when the main thread gets to it, which may be never. What
    # the interpreter writes into this socket arrives at once, in a thread of its own.
    reading, writing = socket.socketpair()
    writing.setblocking(False)
    listener = threading.Thread(
        target=_listen,
        args=(reading, worker, asyncio.get_running_loop()),
        name="headgate signals",
        daemon=True,
    )
    listener.start()
    previous_fd = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    previous = {number: signal.signal(number, lambda *_: None) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(previous_fd)
        writing.close()
        listener.join()


def _listen(reading: socket.socket, worker: Worker, loop: asyncio.AbstractEventLoop) -> None:
    asked_to_end = 0
    with reading:
        while numbers := reading.recv(64):
            for number in numbers:
                asked_to_end += number in _ENDING
                # A loop that is closed already has nothing to obey with.
                with suppress(RuntimeError):
                    _obey(number, asked_to_end, worker, loop)


def _obey(number: int, asked: int, worker: Worker, loop: asyncio.AbstractEventLoop) -> None:
    if number == signal.SIGUSR1:
        loop.call_soon_threadsafe(worker.quiet)
    elif number == signal.SIGUSR2:
        loop.call_soon_threadsafe(worker.resume)
    elif asked == 1:
        loop.call_soon_threadsafe(worker.shutdown)
    elif asked == 2:
        loop.call_soon_threadsafe(lambda: worker.shutdown(now=True))
        worker.release(_UNRESPONSIVE_MS, lambda: os._exit(EXIT_UNRESPONSIVE))
