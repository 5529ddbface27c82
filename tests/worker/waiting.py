"""Waiting for a condition, never for luck."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from tests.store.rows import Observer, state_of


async def eventually(
    condition: Callable[[], bool | Awaitable[bool]], *, limit_ms: int = 20_000
) -> None:
    """Returns as soon as `condition` holds; fails when it does not within the limit."""
    end = time.monotonic() + limit_ms / 1000
    while True:
        answer = condition()
        if answer if isinstance(answer, bool) else await answer:
            return
        assert time.monotonic() < end, "the condition did not come true in time"
        await asyncio.sleep(0.005)


async def reaches(
    observer: Observer, job_id: str, state: str | None, *, limit_ms: int = 20_000
) -> None:
    """Waits until the job is in `state`; None is a job whose row is gone."""

    async def there() -> bool:
        return await state_of(observer, job_id) == state

    await eventually(there, limit_ms=limit_ms)
