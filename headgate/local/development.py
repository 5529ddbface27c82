"""Everything in one process, for development: database, migrations, API and a worker."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from headgate.api.config import ApiConfig
from headgate.api.server import serve
from headgate.client.application import Headgate
from headgate.store.migration import upgrade
from headgate.store.settings import StoreSettings
from headgate.store.store import Store
from headgate.worker.config import WorkerConfig
from headgate.worker.worker import Worker


class Development:
    """A running installation: its store, and what has to end with it."""

    def __init__(
        self, store: Store, worker: Worker, tasks: tuple["asyncio.Task[None]", ...]
    ) -> None:
        self.store = store
        self._worker = worker
        self._serving, self._working = tasks

    async def ended(self) -> None:
        """Returns when a signal ended the API and the worker has finished what it was doing."""
        await asyncio.wait((self._serving, self._working), return_when=asyncio.FIRST_COMPLETED)
        self._worker.shutdown()
        await asyncio.gather(self._serving, self._working)

    async def end(self) -> None:
        """Ends both without a signal."""
        self._serving.cancel()
        self._worker.shutdown()
        await asyncio.gather(self._serving, self._working, return_exceptions=True)


@asynccontextmanager
async def development(
    app: Headgate,
    dsn: str,
    listening: socket.socket,
    *,
    concurrency: int = 16,
    announce: Callable[[str], None] = lambda line: None,
) -> AsyncIterator[Development]:
    """Migrates the database, serves the API on `listening` and works on the jobs of `app`.

    The first SIGINT or SIGTERM ends both in order. Raises `StoreError` when the database cannot be
    used as it is.
    """
    await upgrade(dsn)
    settings = StoreSettings(dsn=dsn)
    async with Store(settings) as store:
        worker = Worker(app, store, WorkerConfig(concurrency=concurrency))
        serving = asyncio.create_task(serve(settings, ApiConfig(), listening, announce=announce))
        working = asyncio.create_task(worker.run())
        running = Development(store, worker, (serving, working))
        try:
            yield running
        finally:
            await running.end()
