"""The application object: the tasks it knows, and the store it writes jobs to."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Any, Protocol, Self, TypeVar, Unpack, overload

from headgate.client.errors import NotOpen, RegistrationError
from headgate.client.options import JobOptions
from headgate.client.signature import HandlerContext
from headgate.client.task import Task
from headgate.model.envelope import DEFAULT_QUEUE, Envelope
from headgate.model.job import Enqueued, RequestKey
from headgate.store.settings import StoreSettings
from headgate.store.store import Store

Payload = TypeVar("Payload")
Context = TypeVar("Context", bound=HandlerContext)


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


class Headgate:
    """The tasks of an application.

    It needs no database to register tasks. To enqueue it must be open: in a process that only
    produces, `async with app:` or `await app.open()`; in a worker the worker lends it its store.
    """

    def __init__(self, *, dsn: str | None = None, schema: str = "public") -> None:
        """Without a DSN, `open` asks the environment. Raises `InvalidRequest` for what is none."""
        self._settings = None if dsn is None else StoreSettings(dsn=dsn, schema=schema)
        self._tasks: dict[str, Task[Any]] = {}
        self._store: Store | None = None
        self._owns_store = False

    @property
    def tasks(self) -> Mapping[str, Task[Any]]:
        """The tasks by every kind they answer, aliases included."""
        return MappingProxyType(self._tasks)

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that the jobs of the tasks go to by default: what a worker must serve."""
        return tuple(sorted({task.queue for task in self._tasks.values()})) or (DEFAULT_QUEUE,)

    @property
    def store(self) -> Store:
        """The store that jobs are written to. Raises `NotOpen`."""
        if self._store is None:
            raise NotOpen
        return self._store

    @property
    def settings(self) -> StoreSettings | None:
        """Where the store is, when the application says so itself."""
        return self._settings

    def task(
        self,
        kind: str,
        *,
        aliases: Sequence[str] = (),
        version: int = 1,
        **options: Unpack[JobOptions],
    ) -> Decorate:
        """Registers the decorated function as the handler of `kind`.

        The function takes an optional first parameter for the context (annotated `JobContext`, or
        named `ctx`) and at most one payload, whose annotation is the payload type. `async def`
        runs on the event loop, `def` in a thread. `aliases` are kinds that it answers too,
        `version` is that of its payload's form, `options` hold for each of its jobs.

        Raises `RegistrationError` at once for a kind that breaks the rule or is taken, for options
        that no job could have, and for a function of another shape.
        """

        def register(handler: Callable[..., Any]) -> Task[Any]:
            task = Task[Any](self, kind, handler, aliases=aliases, version=version, options=options)
            for position, name in enumerate(task.kinds):
                if name in self._tasks or name in task.kinds[:position]:
                    raise RegistrationError(f"task {kind}: kind `{name}` has a handler already")
            self._tasks.update(dict.fromkeys(task.kinds, task))
            return task

        return register

    async def open(self) -> None:
        """Opens a store of the application's own; without a DSN, the one of the environment.

        The database need not be up. Raises `InvalidRequest` when nobody says where it is.
        """
        if self._store is None:
            self._store = await Store.open(self._settings or StoreSettings.from_environment())
            self._owns_store = True

    async def close(self) -> None:
        """Closes the store if it is the application's own. May be repeated."""
        store, self._store = self._store, None
        if store is not None and self._owns_store:
            await store.close()
        self._owns_store = False

    def bind(self, store: Store) -> None:
        """Lends the application a store that somebody else closes; handlers enqueue through it."""
        if not self._owns_store:
            self._store = store

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def enqueue(self, job: Envelope, *, request_key: str | None = None) -> Enqueued:
        """Enqueues one job, made by `Task.job` or by hand.

        `request_key` makes a repetition safe: within 24 hours and the job's kind it answers with
        the job that the first request made.

        Raises `InvalidRequest` before the store is asked, then `IdConflict`,
        `FingerprintQuarantined`, `Backpressure`, `DuplicateJob` or `StoreUnavailable`. When it
        raises, nothing was written, except what a `DuplicateJob` says it replaced.
        """
        request = None if request_key is None else RequestKey(scope=job.kind, key=request_key)
        (enqueued,) = await self.store.producer.enqueue([job], request=request)
        return enqueued

    async def enqueue_many(self, jobs: Iterable[Envelope]) -> list[Enqueued]:
        """Enqueues up to 1,000 jobs in one transaction: all of them or none.

        Raises what `enqueue` raises; the answers stand in the order of the jobs.
        """
        return await self.store.producer.enqueue(list(jobs))
