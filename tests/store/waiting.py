"""Waiting for a condition, and for no longer than it takes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

Answer = TypeVar("Answer")


async def until(ask: Callable[[], Awaitable[Answer]], *, seconds: float = 10) -> Answer:
    """The first answer that is true. Raises TimeoutError when there is none in time."""
    async with asyncio.timeout(seconds):
        while True:
            answer = await ask()
            if answer:
                return answer
            await asyncio.sleep(0.01)
