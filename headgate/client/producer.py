"""Putting jobs into the store of an application, each through the same pipeline."""

import os
from collections.abc import Iterable
from functools import partial
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from headgate.client.authorizer import LIBRARY, EnqueueContext
from headgate.client.completion import RETENTION_MS, Completion, wait
from headgate.client.durations import duration_ms
from headgate.client.errors import NotOpen
from headgate.client.middleware import EnqueueMode
from headgate.client.pipeline import EnqueuePipeline, Write
from headgate.client.portal import Portal
from headgate.model.access import Identity
from headgate.model.envelope import Envelope
from headgate.model.errors import InvalidRequest
from headgate.model.job import Enqueued, RequestKey
from headgate.store.foreign import AsyncConnectionLike, SyncConnection
from headgate.store.joining import enqueue_in, enqueue_in_sync
from headgate.store.settings import StoreSettings
from headgate.store.store import Store


class JobProducer:
    """What writes jobs: a store, opened here or lent, and the pipeline in front of it."""

    def __init__(self, *, dsn: str | None, schema: str, pipeline: EnqueuePipeline | None) -> None:
        self._settings = None if dsn is None else StoreSettings(dsn=dsn, schema=schema)
        self._pipeline = pipeline or EnqueuePipeline()
        self._store: Store | None = None
        self._portal = Portal(lambda: self._settings or StoreSettings.from_environment())
        self._owns_store = False

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

    async def enqueue(
        self,
        job: Envelope,
        *,
        request_key: str | None = None,
        connection: AsyncConnectionLike | None = None,
        identity: Identity | None = None,
    ) -> Enqueued:
        """Enqueues one job, made by `Task.job` or by hand.

        `request_key` makes a repetition safe: within 24 hours and the job's kind it answers with
        the job that the first request made. `connection` is one with an open transaction of the
        caller's: the job is there when that is committed. `identity` is whom the authorizer is
        asked about.

        Raises what the pipeline does, `InvalidRequest` before the store is asked, then
        `IdConflict`, `FingerprintQuarantined`, `Backpressure`, `DuplicateJob` or
        `StoreUnavailable`. When it raises, nothing was written, except what a `DuplicateJob` says
        it replaced.
        """
        if connection is not None:
            if request_key is not None:
                raise InvalidRequest("a request key needs a transaction of its own")
            (enqueued,) = await self.enqueue_many([job], connection=connection, identity=identity)
            return enqueued
        request = None if request_key is None else RequestKey(scope=job.kind, key=request_key)
        producer = self.store.producer
        (enqueued,) = await self._pipeline.enqueue(
            [job],
            lambda jobs: producer.enqueue(jobs, request=request),
            context=_context(identity),
        )
        return enqueued

    async def enqueue_many(
        self,
        jobs: Iterable[Envelope],
        *,
        connection: AsyncConnectionLike | None = None,
        identity: Identity | None = None,
    ) -> list[Enqueued]:
        """Enqueues up to 1,000 jobs in one transaction: all of them or none.

        Raises what `enqueue` raises; the answers stand in the order of the jobs.
        """
        if connection is None:
            return await self._enqueue(self.store, list(jobs), identity)
        return await self._pipeline.enqueue(
            list(jobs),
            partial(enqueue_in, connection, schema=self._schema),
            context=_context(identity),
            mode=EnqueueMode.TRANSACTIONAL,
        )

    async def enqueue_and_wait(
        self, job: Envelope, *, wait_ms: int = 30_000, identity: Identity | None = None
    ) -> Completion:
        """Enqueues one job and waits for its end, in whatever process it runs.

        A job without retention is kept for a minute, so that its result can be read. Raises what
        `enqueue` raises, and `WaitTimeout`; then the job goes on, and `wait` can wait again.
        """
        return await self._enqueue_and_wait(self.store, job, wait_ms, identity)

    async def wait(self, job_id: str, *, wait_ms: int = 30_000) -> Completion:
        """Waits for the end of a job. Raises `WaitTimeout` and `StoreUnavailable`."""
        return await wait(self.store, job_id, wait_ms)

    def enqueue_blocking(
        self,
        jobs: Iterable[Envelope],
        *,
        connection: SyncConnection | None = None,
        identity: Identity | None = None,
    ) -> list[Enqueued]:
        """`enqueue_many` for code that blocks: scripts, and frameworks without an event loop.

        It needs no `open`. With a connection of SQLAlchemy, psycopg or Django, the jobs are
        enqueued in its transaction; middleware, which is asynchronous, cannot take part then, and
        where there is some this raises `InvalidRequest`.
        """
        if connection is None:
            batch = list(jobs)
            return self._portal.run(lambda store: self._enqueue(store, batch, identity))
        return self._pipeline.enqueue_blocking(
            list(jobs),
            partial(enqueue_in_sync, connection, schema=self._schema),
            context=_context(identity),
        )

    def enqueue_and_wait_blocking(
        self, job: Envelope, *, wait_ms: int = 30_000, identity: Identity | None = None
    ) -> Completion:
        """`enqueue_and_wait` for code that blocks."""
        return self._portal.run(lambda store: self._enqueue_and_wait(store, job, wait_ms, identity))

    def wait_blocking(self, job_id: str, *, wait_ms: int = 30_000) -> Completion:
        """`wait` for code that blocks."""
        return self._portal.run(lambda store: wait(store, job_id, wait_ms))

    def close_blocking(self) -> None:
        """Ends what `enqueue_blocking` has begun; the end of the process does the same."""
        self._portal.close()

    async def _enqueue(
        self, store: Store, jobs: list[Envelope], identity: Identity | None
    ) -> list[Enqueued]:
        write: Write = store.producer.enqueue
        return await self._pipeline.enqueue(jobs, write, context=_context(identity))

    async def _enqueue_and_wait(
        self, store: Store, job: Envelope, wait_ms: int, identity: Identity | None
    ) -> Completion:
        duration_ms("wait", None, wait_ms)
        kept = replace(job, retention_ms=job.retention_ms or RETENTION_MS)
        (enqueued,) = await self._enqueue(store, [kept], identity)
        return await wait(store, enqueued.id, wait_ms)

    @property
    def _schema(self) -> str:
        settings = self._settings if self._store is None else self._store.settings
        return os.environ.get("HEADGATE_SCHEMA", "public") if settings is None else settings.schema


def _context(identity: Identity | None) -> EnqueueContext:
    return LIBRARY if identity is None else EnqueueContext(identity=identity)
