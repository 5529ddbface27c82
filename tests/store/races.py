"""Somebody else who holds a job, and moves it while an operation waits for it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from headgate.model.errors import HeadgateError
from headgate.model.lifecycle import DELETED
from tests.store.rows import Observer
from tests.worker.waiting import eventually

_MOVE = """
UPDATE headgate_job SET state = $2::text::headgate_state,
  lease_id = CASE $2 WHEN 'running' THEN 'other' END
WHERE ulid = $1
"""


async def blocked(observer: Observer) -> None:
    """Waits until some session of this database waits for a lock."""

    async def waits() -> bool:
        count: int = await observer.fetchval(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return count > 0

    await eventually(waits)


@asynccontextmanager
async def somebody(dsn: str) -> AsyncIterator[Observer]:
    """A session of somebody else, in a transaction that ends with the block."""
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            yield connection
    finally:
        await connection.close()


async def overtaken(
    observer: Observer, dsn: str, action: Awaitable[Any], job_id: str, target: str
) -> HeadgateError | None:
    """Runs the action while somebody moves its job to `target`; what it raised, if anything."""
    async with somebody(dsn) as other:
        if target == DELETED:
            await other.execute("DELETE FROM headgate_job WHERE ulid = $1", job_id)
        else:
            await other.execute(_MOVE, job_id, target)
        acting = asyncio.ensure_future(action)
        await blocked(observer)
    try:
        await asyncio.wait_for(acting, 10)
    except HeadgateError as error:
        return error
    return None
