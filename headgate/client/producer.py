"""Putting jobs into the store of an application, each through the same pipeline."""

import os
from collections.abc import Iterable
from functools import partial
from types import TracebackType
from typing import Self

from headgate.client.authorizer import LIBRARY, EnqueueContext
from headgate.client.errors import NotOpen
from headgate.client.middleware import EnqueueMode
from headgate.client.pipeline import EnqueuePipeline, Write
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
        write: Write
        if connection is None:
            write, mode = self.store.producer.enqueue, EnqueueMode.DIRECT
        else:
            write = partial(enqueue_in, connection, schema=self._schema)
            mode = EnqueueMode.TRANSACTIONAL
        return await self._pipeline.enqueue(
            list(jobs), write, context=_context(identity), mode=mode
        )

    def enqueue_blocking(
        self,
        jobs: Iterable[Envelope],
        *,
        connection: SyncConnection,
        identity: Identity | None = None,
    ) -> list[Enqueued]:
        """The same in a transaction of a connection or session that blocks.

        Middleware is asynchronous: where there is some, this raises `InvalidRequest`.
        """
        return self._pipeline.enqueue_blocking(
            list(jobs),
            partial(enqueue_in_sync, connection, schema=self._schema),
            context=_context(identity),
        )

    @property
    def _schema(self) -> str:
        settings = self._settings if self._store is None else self._store.settings
        return os.environ.get("HEADGATE_SCHEMA", "public") if settings is None else settings.schema


def _context(identity: Identity | None) -> EnqueueContext:
    return LIBRARY if identity is None else EnqueueContext(identity=identity)
