"""The store that a command works on: the one in HEADGATE_DATABASE_URL."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from headgate.store.settings import StoreSettings
from headgate.store.store import Store

Answer = TypeVar("Answer")


def with_store(work: Callable[[Store], Awaitable[Answer]]) -> Answer:
    """What `work` returns. Raises `HeadgateError`, also for a schema that this code is not for."""

    async def run() -> Answer:
        async with Store(StoreSettings.from_environment()) as store:
            await store.check_schema()
            return await work(store)

    return asyncio.run(run())


def print_table(*rows: tuple[object, ...]) -> None:
    """Prints the rows in columns; numbers stand to the right."""
    widths = [max(len(str(cell)) for cell in cells) for cells in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            f"{cell:>{width}}" if isinstance(cell, int) else f"{cell!s:<{width}}"
            for cell, width in zip(row, widths, strict=True)
        )
        print("  ".join(cells).rstrip())
