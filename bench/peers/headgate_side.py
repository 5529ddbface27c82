"""Headgate."""

import asyncio

import msgspec

from bench.peers.side import PAYLOAD
from headgate.client.application import Headgate
from headgate.model.envelope import Envelope
from headgate.store.migration import upgrade
from headgate.store.settings import StoreSettings
from headgate.store.store import Store
from headgate.worker.config import WorkerConfig
from headgate.worker.worker import Worker


class Welcome(msgspec.Struct):
    user: int
    template: str


class HeadgateSide:
    async def install(self, dsn: str) -> None:
        await upgrade(dsn)

    async def open(self, dsn: str, concurrency: int) -> None:
        self._store = await Store.open(StoreSettings(dsn=dsn))

    async def close(self) -> None:
        await self._store.close()

    async def enqueue(self) -> None:
        await self._store.producer.enqueue([Envelope(kind="noop", payload=PAYLOAD)])

    async def enqueue_batch(self, size: int) -> None:
        await self._store.producer.enqueue(
            [Envelope(kind="noop", payload=PAYLOAD) for _ in range(size)]
        )

    async def drain(self, jobs: int, concurrency: int) -> None:
        app = Headgate()
        left = jobs
        done = asyncio.Event()

        @app.task("noop")
        async def noop(payload: Welcome) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                done.set()

        worker = Worker(app, self._store, WorkerConfig(concurrency=concurrency))
        running = asyncio.create_task(worker.run())
        await done.wait()
        worker.shutdown()
        await running
