"""Signals as a worker's commands.

`SIGTERM` and `SIGINT` drain, a second one releases at once; `SIGUSR1` stops taking jobs, `SIGUSR2`
takes them again.
"""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from headgate.worker.worker import Worker

_UNRESPONSIVE_MS: Final = 800
EXIT_UNRESPONSIVE: Final = 1


@contextmanager
def obeying_signals(worker: Worker) -> Iterator[None]:
    """Signals mean commands inside this block, which belongs on the main thread's event loop.

    They reach the worker also while a handler blocks that loop: on the second signal, a loop that
    does not react in time is given up, its jobs are released, and the process exits.
    """
    loop = asyncio.get_running_loop()
    asked = 0

    def end(_signal: int, _frame: FrameType | None) -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            loop.call_soon_threadsafe(worker.shutdown)
        elif asked == 2:
            loop.call_soon_threadsafe(lambda: worker.shutdown(now=True))
            worker.release(_UNRESPONSIVE_MS, lambda: os._exit(EXIT_UNRESPONSIVE))

    def quiet(_signal: int, _frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(worker.quiet)

    def resume(_signal: int, _frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(worker.resume)

    handlers = {
        signal.SIGTERM: end,
        signal.SIGINT: end,
        signal.SIGUSR1: quiet,
        signal.SIGUSR2: resume,
    }
    previous = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
