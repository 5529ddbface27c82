"""The proof that a server answers, and who it is: a real connection."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import asyncpg

Answer = TypeVar("Answer")

CONNECT_TIMEOUT_S = 10


async def server_identity(dsn: str) -> tuple[str, str]:
    """The version (such as `18.6`) and the data directory of the server that answers at `dsn`."""
    connection = await asyncpg.connect(dsn, timeout=CONNECT_TIMEOUT_S)
    try:
        version: str = await connection.fetchval("SHOW server_version")
        directory: str = await connection.fetchval("SHOW data_directory")
    finally:
        await connection.close(timeout=CONNECT_TIMEOUT_S)
    return version, directory


def blocking(work: Coroutine[Any, Any, Answer]) -> Answer:
    """Run `work` to its end from code that is not async, also inside a running event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
