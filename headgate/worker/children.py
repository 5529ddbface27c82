"""Tasks that belong to an attempt: it does not end before they do."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from headgate.model.errors import InvalidRequest


class Children:
    """The tasks of one attempt. The first that fails cancels the others, and the attempt fails."""

    __slots__ = ("_closed", "_failed", "_tasks", "failure")

    def __init__(self, failed: Callable[[], None]) -> None:
        self._failed = failed
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False
        self.failure: BaseException | None = None

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Runs `work` beside the handler. Raises `InvalidRequest` once the handler has returned,
        and outside of the event loop of the worker.
        """
        try:
            if self._closed:
                raise InvalidRequest("the attempt has ended: nothing can be started in it")
            task = asyncio.get_running_loop().create_task(work)
        except RuntimeError:
            work.close()
            raise InvalidRequest("only an `async` handler can start tasks") from None
        except InvalidRequest:
            work.close()
            raise
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def join(self) -> None:
        """Waits for all of them, those that they start meanwhile included, and refuses more.

        Raises what the first that failed has raised.
        """
        try:
            while self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            self._closed = True
        if self.failure is not None:
            raise self.failure

    async def cancel(self) -> None:
        """Cancels what still runs and waits for it."""
        self._closed = True
        self._cancel()
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (failure := task.exception()) is None or self.failure is not None:
            return
        self.failure = failure
        if not self._closed:
            self._cancel()
            self._failed()
