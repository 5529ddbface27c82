"""Headgate."""

from bench.peers.side import Handled, Welcome
from headgate.client.application import Headgate
from headgate.store.migration import upgrade
from headgate.store.settings import StoreSettings
from headgate.store.store import Store
from headgate.worker.collector import spare_collector
from headgate.worker.config import WorkerConfig
from headgate.worker.worker import Worker


class HeadgateSide:
    def __init__(self) -> None:
        self._app = app = Headgate()
        self._handled: Handled = lambda number: None

        @app.task("noop")
        async def noop(payload: Welcome) -> None:
            self._handled(payload.number)

        self._task = noop

    async def install(self, dsn: str) -> None:
        await upgrade(dsn)

    async def open(self, dsn: str) -> None:
        self._store = await Store.open(StoreSettings(dsn=dsn))
        self._app.bind(self._store)

    async def close(self) -> None:
        await self._store.close()

    async def enqueue(self, number: int) -> None:
        await self._task.enqueue(Welcome(number))

    async def enqueue_batch(self, size: int) -> None:
        await self._app.enqueue_many([self._task.job(Welcome(0)) for _ in range(size)])

    async def work(self, concurrency: int, handled: Handled) -> None:
        self._handled = handled
        # As the command `headgate worker` does.
        spare_collector()
        await Worker(self._app, self._store, WorkerConfig(concurrency=concurrency)).run()
