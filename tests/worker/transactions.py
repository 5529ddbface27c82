"""Transactions that a handler has on a connection of its own, of every kind there is."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from typing import Any, TypeAlias

import asyncpg
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

CHARGE = "INSERT INTO charge DEFAULT VALUES"

Transaction: TypeAlias = Callable[[str], AbstractAsyncContextManager[Any]]
BlockingTransaction: TypeAlias = Callable[[str], AbstractContextManager[Any]]


def _url(dsn: str, driver: str) -> str:
    return make_url(dsn).set(drivername=driver).render_as_string(hide_password=False)


@asynccontextmanager
async def raw(dsn: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def pooled(dsn: str) -> AsyncIterator[Any]:
    async with (
        asyncpg.create_pool(dsn, min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        yield connection


@asynccontextmanager
async def core(dsn: str, driver: str = "postgresql+asyncpg") -> AsyncIterator[Any]:
    engine = create_async_engine(_url(dsn, driver))
    try:
        async with engine.begin() as connection:
            yield connection
    finally:
        await engine.dispose()


def core_psycopg(dsn: str) -> AbstractAsyncContextManager[Any]:
    return core(dsn, "postgresql+psycopg")


@asynccontextmanager
async def orm(dsn: str) -> AsyncIterator[Any]:
    engine = create_async_engine(_url(dsn, "postgresql+asyncpg"))
    try:
        async with AsyncSession(engine) as session, session.begin():
            yield session
    finally:
        await engine.dispose()


@contextmanager
def blocking(dsn: str) -> Iterator[Any]:
    engine = create_engine(_url(dsn, "postgresql+psycopg"))
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


@contextmanager
def blocking_orm(dsn: str) -> Iterator[Any]:
    engine = create_engine(_url(dsn, "postgresql+psycopg"))
    try:
        with Session(engine) as session, session.begin():
            yield session
    finally:
        engine.dispose()


ASYNC: tuple[Transaction, ...] = (raw, pooled, core, core_psycopg, orm)
BLOCKING: tuple[BlockingTransaction, ...] = (blocking, blocking_orm)


async def charge(connection: Any) -> None:
    """The effect: one more row, on whatever kind of connection this is."""
    if hasattr(connection, "fetch"):
        await connection.execute(CHARGE)
    else:
        await connection.execute(text(CHARGE))


def charge_blocking(connection: Any) -> None:
    connection.execute(text(CHARGE))
