"""procrastinate, on its pool of psycopg."""

import procrastinate

from bench.peers.side import Handled


class ProcrastinateSide:
    def __init__(self) -> None:
        self._handled: Handled = lambda number: None

    async def install(self, dsn: str) -> None:
        app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=dsn))
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    async def open(self, dsn: str) -> None:
        self._app = procrastinate.App(
            connector=procrastinate.PsycopgConnector(conninfo=dsn, min_size=2, max_size=10)
        )

        @self._app.task(name="noop")
        async def noop(number: int, template: str) -> None:
            self._handled(number)

        self._task = noop
        await self._app.open_async()

    async def close(self) -> None:
        await self._app.close_async()

    async def enqueue(self, number: int) -> None:
        await self._task.defer_async(number=number, template="welcome")

    async def enqueue_batch(self, size: int) -> None:
        jobs = [{"number": 0, "template": "welcome"} for _ in range(size)]
        await self._task.batch_defer_async(*jobs)

    async def work(self, concurrency: int, handled: Handled) -> None:
        self._handled = handled
        await self._app.run_worker_async(concurrency=concurrency, install_signal_handlers=False)
