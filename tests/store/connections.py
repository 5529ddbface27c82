"""A caller's transaction, on every kind of connection that it may come with."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from headgate.model.envelope import Envelope
from headgate.model.job import Enqueued
from headgate.store.joining import enqueue_in, enqueue_in_sync

Enqueue = Callable[[Sequence[Envelope]], Awaitable[list[Enqueued]]]
Execute = Callable[[str], Awaitable[Any]]


class Joined:
    """A transaction of an application, on one kind of connection."""

    def __init__(self, enqueue: Enqueue, execute: Execute) -> None:
        self.enqueue = enqueue
        self.execute = execute


def url(dsn: str, driver: str) -> str:
    return make_url(dsn).set(drivername=driver).render_as_string(hide_password=False)


@asynccontextmanager
async def raw(dsn: str) -> AsyncIterator[Joined]:
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            yield Joined(
                lambda jobs: enqueue_in(connection, jobs),
                connection.execute,
            )
    finally:
        await connection.close()


@asynccontextmanager
async def pooled(dsn: str) -> AsyncIterator[Joined]:
    async with (
        asyncpg.create_pool(dsn, min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        yield Joined(lambda jobs: enqueue_in(connection, jobs), connection.execute)


@asynccontextmanager
async def core(dsn: str, driver: str = "postgresql+asyncpg") -> AsyncIterator[Joined]:
    engine = create_async_engine(url(dsn, driver))
    try:
        async with engine.begin() as connection:
            yield Joined(
                lambda jobs: enqueue_in(connection, jobs),
                lambda statement: connection.execute(text(statement)),
            )
    finally:
        await engine.dispose()


def core_psycopg(dsn: str) -> Any:
    return core(dsn, "postgresql+psycopg")


@asynccontextmanager
async def orm(dsn: str) -> AsyncIterator[Joined]:
    engine = create_async_engine(url(dsn, "postgresql+asyncpg"))
    try:
        async with AsyncSession(engine) as session, session.begin():
            yield Joined(
                lambda jobs: enqueue_in(session, jobs),
                lambda statement: session.execute(text(statement)),
            )
    finally:
        await engine.dispose()


@asynccontextmanager
async def blocking(dsn: str) -> AsyncIterator[Joined]:
    engine = create_engine(url(dsn, "postgresql+psycopg"))
    try:
        with engine.begin() as connection:
            yield Joined(
                lambda jobs: asyncio.to_thread(enqueue_in_sync, connection, jobs),
                lambda statement: asyncio.to_thread(connection.execute, text(statement)),
            )
    finally:
        engine.dispose()


@asynccontextmanager
async def blocking_orm(dsn: str) -> AsyncIterator[Joined]:
    engine = create_engine(url(dsn, "postgresql+psycopg"))
    try:
        with Session(engine) as session, session.begin():
            yield Joined(
                lambda jobs: asyncio.to_thread(enqueue_in_sync, session, jobs),
                lambda statement: asyncio.to_thread(session.execute, text(statement)),
            )
    finally:
        engine.dispose()


KINDS = (raw, pooled, core, core_psycopg, orm, blocking, blocking_orm)
