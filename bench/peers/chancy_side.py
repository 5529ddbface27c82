"""chancy, on its pool of psycopg, with handlers on the event loop and eager polls."""

from chancy import Chancy, Job, Queue, Worker

from bench.peers.side import Handled

_handled: Handled = lambda number: None  # noqa: E731  # its handlers are found by their name


async def noop(number: int, template: str) -> None:
    _handled(number)


class ChancySide:
    def __init__(self) -> None:
        self._job = Job.from_func(noop)

    async def install(self, dsn: str) -> None:
        async with Chancy(dsn) as chancy:
            await chancy.migrate()

    async def open(self, dsn: str) -> None:
        self._chancy = Chancy(dsn, min_connection_pool_size=2, max_connection_pool_size=10)
        await self._chancy.pool.open()

    async def close(self) -> None:
        await self._chancy.pool.close()

    async def enqueue(self, number: int) -> None:
        await self._chancy.push(self._job.with_kwargs(number=number, template="welcome"))

    async def enqueue_batch(self, size: int) -> None:
        jobs = [self._job.with_kwargs(number=0, template="welcome") for _ in range(size)]
        async for _ in self._chancy.push_many(jobs):
            pass

    async def work(self, concurrency: int, handled: Handled) -> None:
        global _handled
        _handled = handled
        executor = Chancy.Executor.Async
        queue = Queue("default", concurrency=concurrency, executor=executor, eager_polling=True)
        await self._chancy.declare(queue, upsert=True)
        async with Worker(self._chancy, register_signal_handlers=False) as worker:
            await worker.wait_for_shutdown()
