"""pgqueuer, on a pool of asyncpg, with the largest batch that its limit of tasks allows."""

import asyncpg
import msgspec
from pgqueuer import AsyncpgPoolDriver, Job, PgQueuer, Queries

from bench.peers.side import Handled, Welcome, decode


class PgqueuerSide:
    async def install(self, dsn: str) -> None:
        async with asyncpg.create_pool(dsn, min_size=1, max_size=2) as pool:
            await Queries(AsyncpgPoolDriver(pool)).install()

    async def open(self, dsn: str) -> None:
        self._pool = await asyncpg.create_pool(dsn, min_size=2, max_size=10)
        self._queries = Queries(AsyncpgPoolDriver(self._pool))

    async def close(self) -> None:
        await self._pool.close()

    async def enqueue(self, number: int) -> None:
        await self._queries.enqueue("noop", msgspec.json.encode(Welcome(number)))

    async def enqueue_batch(self, size: int) -> None:
        payloads = [msgspec.json.encode(Welcome(0)) for _ in range(size)]
        await self._queries.enqueue(["noop"] * size, payloads, [0] * size)

    async def work(self, concurrency: int, handled: Handled) -> None:
        app = PgQueuer.from_asyncpg_pool(self._pool)

        @app.entrypoint("noop")
        async def noop(job: Job) -> None:
            assert job.payload is not None
            handled(decode(job.payload).number)

        await app.run(batch_size=concurrency // 2, max_concurrent_tasks=concurrency)
