"""Enqueueing in a caller's transaction, on every kind of connection that it may come with."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from headgate.model.envelope import Envelope
from headgate.model.job import Enqueued
from headgate.store.joining import enqueue_in, enqueue_in_sync
from tests.store.transactions import (
    ASYNC,
    BLOCKING,
    BlockingTransaction,
    Transaction,
    execute,
    execute_blocking,
)

Enqueue = Callable[[Sequence[Envelope]], Awaitable[list[Enqueued]]]
Execute = Callable[[str], Awaitable[Any]]


class Joined:
    """A transaction of an application, on one kind of connection."""

    def __init__(self, enqueue: Enqueue, execute: Execute) -> None:
        self.enqueue = enqueue
        self.execute = execute


def _awaited(transaction: Transaction) -> Any:
    @asynccontextmanager
    async def joined(dsn: str) -> AsyncIterator[Joined]:
        async with transaction(dsn) as connection:
            yield Joined(
                lambda jobs: enqueue_in(connection, jobs),
                lambda statement: execute(connection, statement),
            )

    joined.__name__ = transaction.__name__
    return joined


def _blocked(transaction: BlockingTransaction) -> Any:
    @asynccontextmanager
    async def joined(dsn: str) -> AsyncIterator[Joined]:
        with transaction(dsn) as connection:
            yield Joined(
                lambda jobs: asyncio.to_thread(enqueue_in_sync, connection, jobs),
                lambda statement: asyncio.to_thread(execute_blocking, connection, statement),
            )

    joined.__name__ = transaction.__name__
    return joined


KINDS = (*map(_awaited, ASYNC), *map(_blocked, BLOCKING))
