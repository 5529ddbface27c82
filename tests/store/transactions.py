"""Transactions of an application on a connection of its own, of every kind there is."""

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from typing import Any, TypeAlias

import asyncpg
import psycopg
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


@contextmanager
def driver(dsn: str) -> Iterator[Any]:
    with psycopg.connect(dsn) as connection:
        yield connection


@contextmanager
def django(dsn: str) -> Iterator[Any]:
    """The connection of Django, inside of `transaction.atomic`."""
    from django.conf import settings  # type: ignore[import-untyped]  # it carries no types
    from django.db.utils import ConnectionHandler  # type: ignore[import-untyped]  # nor does this

    # It is used here in threads of tests that have an event loop.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    if not settings.configured:
        settings.configure()
    url = make_url(dsn)
    database = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": url.database,
        "USER": url.username,
        "PASSWORD": url.password or "",
        "HOST": url.host or url.query.get("host", ""),
        "PORT": str(url.port or ""),
    }
    connection: Any = ConnectionHandler({"default": database})["default"]
    # The tests use it in several threads, one after the other.
    connection.inc_thread_sharing()
    try:
        connection.set_autocommit(False)
        connection.in_atomic_block = True
        yield connection
        connection.in_atomic_block = False
        connection.commit()
    finally:
        connection.in_atomic_block = False
        connection.close()


ASYNC: tuple[Transaction, ...] = (raw, pooled, core, core_psycopg, orm)
BLOCKING: tuple[BlockingTransaction, ...] = (blocking, blocking_orm, driver, django)


async def execute(connection: Any, statement: str) -> None:
    """Runs a statement on whatever kind of connection this is."""
    await connection.execute(statement if hasattr(connection, "fetch") else text(statement))


def execute_blocking(connection: Any, statement: str) -> None:
    if hasattr(connection, "cursor"):
        with connection.cursor() as cursor:
            cursor.execute(statement)
    else:
        connection.execute(text(statement))


async def charge(connection: Any) -> None:
    """An effect: one more row."""
    await execute(connection, CHARGE)


def charge_blocking(connection: Any) -> None:
    execute_blocking(connection, CHARGE)
