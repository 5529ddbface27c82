"""The tasks that an application knows, and what they share."""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Protocol,
    TypeAlias,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from headgate.client.batches import BatchJob, BatchTask
from headgate.client.commands import CommandTask
from headgate.client.dependencies import Data
from headgate.client.errors import RegistrationError
from headgate.client.failures import DeathHandler, IsFailure, RetryPolicy
from headgate.client.options import JobOptions
from headgate.client.sealing import PayloadCipher
from headgate.client.signature import HandlerContext
from headgate.client.task import Task

if TYPE_CHECKING:
    from headgate.client.application import Headgate

Payload = TypeVar("Payload")
Provided = TypeVar("Provided")
Context = TypeVar("Context", bound=HandlerContext)
Handler = TypeVar("Handler", bound=DeathHandler)

HandlerMiddleware: TypeAlias = Callable[[Any, Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""Stands around a handler: it gets the context and goes on with `await call_next()`, whose value it
returns. What the handler raises passes through it, outcomes too."""

Middleware = TypeVar("Middleware", bound=HandlerMiddleware)

Lifespan: TypeAlias = Callable[[Any], AbstractAsyncContextManager[Any]]


class Decorate(Protocol):
    """Turns a handler into a task of its payload type."""

    @overload
    def __call__(self, handler: Callable[[], Any], /) -> Task[None]: ...
    @overload
    def __call__(self, handler: Callable[[Context], Any], /) -> Task[None]: ...
    @overload
    def __call__(self, handler: Callable[[Context, Payload], Any], /) -> Task[Payload]: ...
    @overload
    def __call__(self, handler: Callable[[Payload], Any], /) -> Task[Payload]: ...
    @overload
    def __call__(
        self, handler: Callable[Concatenate[Context, Payload, ...], Any], /
    ) -> Task[Payload]: ...
    @overload
    def __call__(self, handler: Callable[Concatenate[Payload, ...], Any], /) -> Task[Payload]: ...


class DecorateBatch(Protocol):
    """Turns a handler of batches into a task of their payload type."""

    def __call__(
        self, handler: Callable[[list[BatchJob[Payload]]], Any], /
    ) -> BatchTask[Payload]: ...


class TaskRegistry:
    """Tasks by kind, values for their handlers, and who hears of jobs that are given up."""

    def __init__(self, *, is_failure: IsFailure | None, retry_policy: RetryPolicy | None) -> None:
        self._is_failure = is_failure
        self._retry_policy = retry_policy
        self._tasks: dict[str, Task[Any]] = {}
        self._provided: dict[Any, Any] = {}
        self._death_handlers: list[DeathHandler] = []
        self._handler_middleware: list[HandlerMiddleware] = []

    @property
    def tasks(self) -> Mapping[str, Task[Any]]:
        """The tasks by every kind they answer, aliases included."""
        return MappingProxyType(self._tasks)

    @property
    def provided(self) -> Mapping[Any, Any]:
        """What handlers get for a parameter marked with `Data`, by its type."""
        return self._provided

    @property
    def death_handlers(self) -> Sequence[DeathHandler]:
        """In the order of their registration."""
        return self._death_handlers

    @property
    def middleware(self) -> Sequence[HandlerMiddleware]:
        """What stands around handlers, the outermost first."""
        return self._handler_middleware

    @property
    def _app(self) -> "Headgate":
        return cast("Headgate", self)

    def task(
        self,
        kind: str,
        *,
        aliases: Sequence[str] = (),
        version: int = 1,
        encryption: PayloadCipher | None = None,
        process: bool = False,
        is_failure: IsFailure | None = None,
        retry_policy: RetryPolicy | None = None,
        **options: Unpack[JobOptions],
    ) -> Decorate:
        """Registers the decorated function as the handler of `kind`.

        The function takes an optional first parameter for the context (annotated `JobContext`, or
        named `ctx`), at most one payload, whose annotation is the payload type, and parameters that
        are marked with `Data` or `Depends`. `async def` runs on the event loop, `def` in a thread,
        and with `process` in a process beside the worker, which is for work that keeps a processor
        busy. `aliases` are kinds that it answers too, `version` is that of its payload's form,
        `encryption` seals its payloads, `options` are `JobOptions` for each of its jobs. An error
        that `is_failure` denies costs no attempt; `retry_policy` says how long to wait after one
        that does.

        Raises `RegistrationError` at once for a kind that breaks the rule or is taken, for options
        that no job could have, and for a function of another shape.
        """

        def register(handler: Callable[..., Any]) -> Task[Any]:
            task = Task[Any](
                self._app,
                kind,
                handler,
                aliases=aliases,
                version=version,
                options=options,
                encryption=encryption,
                is_failure=is_failure or self._is_failure,
                retry_policy=retry_policy or self._retry_policy,
                process=process,
            )
            self.adopt(task)
            return task

        return register

    def batch_task(
        self,
        kind: str,
        *,
        max_size: int = 100,
        max_delay_ms: int = 250,
        aliases: Sequence[str] = (),
        version: int = 1,
        **options: Unpack[JobOptions],
    ) -> DecorateBatch:
        """Registers a function that runs up to `max_size` jobs of `kind` in one call.

        It is an `async def` of one `list[BatchJob[Payload]]`, called when so many jobs are there or
        the first has waited for `max_delay_ms`. It returns one entry for each job, in order: a
        result, None, an exception, or an outcome such as `Snooze`; or None, when all succeeded.
        When it raises, every job has failed. A worker holds at most `concurrency` jobs at a time.

        Raises `RegistrationError` as `task` does.
        """

        def register(handler: Callable[..., Any]) -> BatchTask[Any]:
            task = BatchTask[Any](
                self._app,
                kind,
                handler,
                max_size=max_size,
                max_delay_ms=max_delay_ms,
                aliases=aliases,
                version=version,
                options=options,
                is_failure=self._is_failure,
                retry_policy=self._retry_policy,
            )
            self.adopt(task)
            return task

        return register

    def isolated(
        self,
        kind: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        inherit_env: bool = False,
        aliases: Sequence[str] = (),
        version: int = 1,
        **options: Unpack[JobOptions],
    ) -> Task[Any]:
        """Has a program run the jobs of `kind`: `argv` is it and its arguments, never a shell.

        It reads the job from its standard input and says how it ended on its standard output. Its
        environment is `env` alone, unless it inherits that of the worker. It is killed with all
        that it started when the attempt is to end. Raises `RegistrationError` as `task` does.
        """
        environment = {**(os.environ if inherit_env else {}), **(env or {})}
        task = CommandTask(
            self._app, kind, argv, environment, aliases=aliases, version=version, options=options
        )
        self.adopt(task)
        return task

    def adopt(self, task: Task[Any]) -> None:
        """Takes a task in that was made elsewhere. Raises `RegistrationError` when one of its kinds
        is taken.
        """
        for position, name in enumerate(task.kinds):
            if name in self._tasks or name in task.kinds[:position]:
                raise RegistrationError(f"task {task.kind}: kind `{name}` has a handler already")
        self._tasks.update(dict.fromkeys(task.kinds, task))

    def provide(self, value: Provided, wanted: type[Provided] | None = None) -> None:
        """Gives `value` to every parameter of its type that is marked with `Data`; `wanted` is the
        type when that is another one. A later value takes the place of an earlier one.
        """
        self._provided[type(value) if wanted is None else wanted] = value

    def on_death(self, handler: Handler) -> Handler:
        """Registers a function that is told, as a `Death`, of each job that is given up."""
        self._death_handlers.append(handler)
        return handler

    def handler_middleware(self, middleware: Middleware) -> Middleware:
        """Registers `async def middleware(ctx, call_next)` around every handler that this process
        calls: those on the event loop, in threads, and each job of a batch.
        """
        self._handler_middleware.append(middleware)
        return middleware

    def check_complete(self) -> None:
        """Raises `RegistrationError` for what a worker could not run: a parameter that nobody has
        provided a value for, and upcasts that lead nowhere.
        """
        for task in self._tasks.values():
            task.check_upcasts()
            for dependency in task.signature.dependencies:
                missing = dependency.wanted not in self._provided
                if isinstance(dependency.marker, Data) and missing:
                    raise RegistrationError(
                        f"task {task.kind}: nothing is provided for the parameter"
                        f" {dependency.name}, a {dependency.wanted!r}"
                    )
