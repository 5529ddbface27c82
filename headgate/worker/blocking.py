"""The context for `def` handlers: they run in a thread, and what they ask for on the event loop."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from headgate.model.errors import InvalidRequest
from headgate.store.foreign import SyncConnection
from headgate.worker.record import AttemptRecord

if TYPE_CHECKING:
    from headgate.worker.context import JobContext

Answer = TypeVar("Answer")


class BlockingContext:
    """What `JobContext` does by awaiting, for code that runs in a thread.

    The methods mean and raise the same. What is passed in runs in the calling thread.
    """

    __slots__ = ("_context", "_record")

    def __init__(self, context: "JobContext", record: AttemptRecord) -> None:
        self._context = context
        self._record = record

    def wait(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Runs `work` on the worker's event loop and waits for it.

        Raises what it raises, and `InvalidRequest` on the event loop itself, which would wait for
        ever.
        """
        if self._record.on_loop():
            work.close()
            raise InvalidRequest("an `async` handler awaits; `ctx.blocking` is for `def` handlers")
        return asyncio.run_coroutine_threadsafe(work, self._record.loop).result()

    def progress(self, current: int, total: int, message: str | None = None) -> None:
        self.wait(self._context.progress(current, total, message))

    def output(self, output: Any, *, schema_version: int = 1) -> None:
        self.wait(self._context.output(output, schema_version=schema_version))

    def extend_lease(self, by_ms: int) -> None:
        self.wait(self._context.extend_lease(by_ms))

    def release(self, *, after_ms: int) -> None:
        self.wait(self._context.release(after_ms=after_ms))

    def step(self, name: str, function: Callable[..., Any], *arguments: Any) -> bool:
        return self.cursor_step(name, lambda cursor: function(*arguments))

    def cursor_step(
        self, name: str, function: Callable[..., Any], *arguments: Any, type: Any = Any
    ) -> bool:
        trail = self._record.trail
        if not self.wait(trail.enter(name)):
            return False
        try:
            function(trail.cursor(name, type), *arguments)
        except BaseException:
            trail.fail()
            raise
        self.wait(trail.leave())
        return True

    def set_cursor(self, cursor: Any) -> None:
        self.wait(self._context.set_cursor(cursor))

    def once(
        self, function: Callable[..., Any], *arguments: Any, connection: SyncConnection
    ) -> bool:
        """In a transaction of the caller's, on a connection of SQLAlchemy, psycopg or Django."""
        return self._record.effects.once_blocking(function, arguments, connection)

    def step_once(
        self, name: str, function: Callable[..., Any], *arguments: Any, connection: SyncConnection
    ) -> bool:
        """In a transaction of the caller's, on a connection of SQLAlchemy, psycopg or Django."""
        trail = self._record.trail
        if not self.wait(trail.enter(name)):
            return False
        return self._record.effects.step_once_blocking(trail, name, function, arguments, connection)
