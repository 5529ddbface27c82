"""pgqueuer, on a pool of asyncpg, with the largest batch that its limit of tasks allows."""

import asyncpg
from pgqueuer import AsyncpgPoolDriver, Job, PgQueuer, Queries
from pgqueuer.types import QueueExecutionMode

from bench.peers.side import PAYLOAD


class PgqueuerSide:
    async def install(self, dsn: str) -> None:
        async with asyncpg.create_pool(dsn, min_size=1, max_size=2) as pool:
            await Queries(AsyncpgPoolDriver(pool)).install()

    async def open(self, dsn: str, concurrency: int) -> None:
        self._pool = await asyncpg.create_pool(dsn, min_size=2, max_size=10)
        self._queries = Queries(AsyncpgPoolDriver(self._pool))

    async def close(self) -> None:
        await self._pool.close()

    async def enqueue(self) -> None:
        await self._queries.enqueue("noop", PAYLOAD)

    async def enqueue_batch(self, size: int) -> None:
        await self._queries.enqueue(["noop"] * size, [PAYLOAD] * size, [0] * size)

    async def drain(self, jobs: int, concurrency: int) -> None:
        app = PgQueuer.from_asyncpg_pool(self._pool)

        @app.entrypoint("noop")
        async def noop(job: Job) -> None:
            pass

        await app.run(
            batch_size=concurrency // 2,
            max_concurrent_tasks=concurrency,
            mode=QueueExecutionMode.drain,
        )
