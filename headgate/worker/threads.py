"""Threads for handlers that are plain functions.

They are daemons: a thread cannot be stopped, and one that hangs must not keep the process alive
after its job was released. That is the difference to the standard library's executor.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

Answer = tuple[Any, BaseException | None]


class HandlerThreads:
    """At most `size` threads, started as they are needed."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._busy = 0

    def submit(self, function: Callable[..., Any], *arguments: Any) -> "asyncio.Future[Answer]":
        """Calls the function in a thread, in a copy of the caller's context variables.

        The future's result is what it returned, or what it raised: never set as the future's own
        exception, since a handler may raise what asyncio takes for a message to itself.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        context = contextvars.copy_context()

        def deliver(answer: Answer) -> None:
            self._busy -= 1
            if not future.done():
                future.set_result(answer)

        def call() -> None:
            answer: Answer
            try:
                answer = context.run(function, *arguments), None
            except BaseException as raised:
                answer = None, raised
            try:
                loop.call_soon_threadsafe(deliver, answer)
            except RuntimeError:
                # The loop is closed: nobody waits any more.
                return

        self._busy += 1
        if self._busy > len(self._threads) and len(self._threads) < self._size:
            self._start_thread()
        self._work.put(call)
        return future

    def close(self) -> None:
        """Ends the threads that wait for work; those that still work end after it."""
        for _ in self._threads:
            self._work.put(None)

    def _start_thread(self) -> None:
        thread = threading.Thread(
            target=self._serve, name=f"headgate handler {len(self._threads)}", daemon=True
        )
        self._threads.append(thread)
        thread.start()

    def _serve(self) -> None:
        while (call := self._work.get()) is not None:
            call()
            # Idle, it must not keep alive what it last worked with.
            del call
