"""procrastinate, on its pool of psycopg."""

import procrastinate

from bench.peers.side import PAYLOAD


class ProcrastinateSide:
    async def install(self, dsn: str) -> None:
        app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=dsn))
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    async def open(self, dsn: str, concurrency: int) -> None:
        self._app = procrastinate.App(
            connector=procrastinate.PsycopgConnector(conninfo=dsn, min_size=2, max_size=10)
        )

        @self._app.task(name="noop")
        async def noop(payload: str) -> None:
            pass

        self._task = noop
        await self._app.open_async()

    async def close(self) -> None:
        await self._app.close_async()

    async def enqueue(self) -> None:
        await self._task.defer_async(payload=PAYLOAD.decode())

    async def enqueue_batch(self, size: int) -> None:
        await self._task.batch_defer_async(*({"payload": PAYLOAD.decode()} for _ in range(size)))

    async def drain(self, jobs: int, concurrency: int) -> None:
        await self._app.run_worker_async(
            concurrency=concurrency, wait=False, install_signal_handlers=False
        )
