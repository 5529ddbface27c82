"""Workers on a real database, and a look at what they leave in it."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias, cast

import asyncpg
import pytest

from headgate import Headgate, Store, Worker, WorkerConfig
from headgate.local import UNSAFE_BUT_FAST, LocalServer, temporary_directory
from tests.store.rows import Observer
from tests.worker.processes import MODULE, WorkerProcess

StartWorker: TypeAlias = Callable[..., Worker]
StartProcess: TypeAlias = Callable[..., WorkerProcess]

QUICK: dict[str, Any] = {
    "lease_ms": 3_000,
    "poll_ceiling_ms": 200,
    "shutdown_timeout_ms": 2_000,
    "shutdown_grace_ms": 200,
    "duties": False,
}


@pytest.fixture
def app(store: Store) -> Headgate:
    """An application that enqueues into the database of the test."""
    app = Headgate()
    app.bind(store)
    return app


@pytest.fixture
async def observer(headgate_database: str) -> AsyncIterator[Observer]:
    """Sessions of its own on the database of the test; handlers may look through it too."""
    async with asyncpg.create_pool(headgate_database, min_size=0, max_size=4) as pool:
        yield cast("Observer", pool)


@pytest.fixture
async def start_worker(app: Headgate, store: Store) -> AsyncIterator[StartWorker]:
    """Starts workers of the application in this process; afterwards each must end without error."""
    tasks: list[tuple[Worker, asyncio.Task[None]]] = []

    def start(**config: Any) -> Worker:
        worker = Worker(app, store, WorkerConfig(**{**QUICK, **config}))
        tasks.append((worker, asyncio.create_task(worker.run())))
        return worker

    yield start
    for worker, _ in tasks:
        worker.shutdown(now=True)
    for _, task in tasks:
        await task


@pytest.fixture
def server() -> Iterator[LocalServer]:
    """A server of the test alone, to be stopped and started; not started yet."""
    directory = temporary_directory("headgate-worker-")
    server = LocalServer(directory, settings=UNSAFE_BUT_FAST)
    yield server
    server.stop()
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def start_process(headgate_database: str, tmp_path: Path) -> Iterator[StartProcess]:
    """Starts `headgate worker` on a module of handlers; afterwards nothing is left of it."""
    started: list[WorkerProcess] = []

    def start(
        source: str,
        *arguments: str,
        dsn: str = headgate_database,
        application: str = f"{MODULE}:app",
    ) -> WorkerProcess:
        process = WorkerProcess(tmp_path, source, dsn, *arguments, application=application)
        started.append(process)
        return started[-1]

    yield start
    for process in started:
        process.kill()
