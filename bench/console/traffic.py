"""Jobs that come and go at a gentle rate, some of which fail, wait or take their time."""

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from headgate import Headgate, Snooze, Worker, WorkerConfig
from headgate.model.envelope import Envelope
from headgate.store.settings import StoreSettings
from headgate.store.store import Store

_JOBS_PER_S: Final = 30
_BATCH: Final = 6
_QUEUES: Final = ("mail", "reports", "thumbnails", "billing", "imports", "search")
_KEPT_MS: Final = 600_000


class Busy:
    """What was done so far."""

    def __init__(self) -> None:
        self.enqueued = 0
        self.run = 0
        self._begun = time.monotonic(), time.process_time()

    def cpu(self) -> float:
        """How much of one processor this process has used."""
        wall, cpu = self._begun
        return (time.process_time() - cpu) / max(0.001, time.monotonic() - wall)


def application(busy: Busy) -> Headgate:
    app = Headgate()

    @app.task("usual")
    async def usual() -> None:
        busy.run += 1
        luck = random.random()
        await asyncio.sleep(2 * luck**8)
        if luck < 0.01:
            raise ValueError("this one is out of luck")
        if luck < 0.02:
            raise Snooze(5)

    return app


async def produce(store: Store, busy: Busy) -> None:
    begun = time.monotonic()
    while True:
        await store.producer.enqueue(
            [
                Envelope(
                    kind="usual",
                    queue=random.choice(_QUEUES),
                    partition_key=f"tenant-{random.randrange(40)}",
                    payload=b"null",
                    max_attempts=2,
                    retention_ms=_KEPT_MS,
                )
                for _ in range(_BATCH)
            ]
        )
        busy.enqueued += _BATCH
        await asyncio.sleep(begun + busy.enqueued / _JOBS_PER_S - time.monotonic())


@asynccontextmanager
async def traffic(dsn: str) -> AsyncIterator[Busy]:
    """There is traffic during the block."""
    busy = Busy()
    async with Store(StoreSettings(dsn=dsn)) as store:
        worker = Worker(application(busy), store, WorkerConfig(queues=_QUEUES, concurrency=16))
        working = asyncio.create_task(worker.run())
        producing = asyncio.create_task(produce(store, busy))
        yield busy
        producing.cancel()
        with suppress(asyncio.CancelledError):
            await producing
        worker.shutdown()
        await working
