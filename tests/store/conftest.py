"""What tests of the store share: the store itself, and a session that looks over its shoulder."""

from collections.abc import AsyncIterator, Callable
from typing import Any, TypeAlias

import asyncpg
import pytest

from headgate.store import gate, search
from headgate.store.settings import StoreSettings
from headgate.store.store import Store
from tests.store.rows import Observer

OpenStore: TypeAlias = Callable[..., Store]


@pytest.fixture(autouse=True)
def _from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rotations begin with the first partition, so that a test can tell whose turn it is."""
    monkeypatch.setattr(gate, "random", lambda: 1.0)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search ends by what it has looked at, not by how long a busy machine took for it."""
    monkeypatch.setattr(search, "_SEARCH_SECONDS", 60.0)


@pytest.fixture
async def open_store(headgate_database: str) -> AsyncIterator[OpenStore]:
    """Opens further stores on the database of the test, with settings of their own."""
    opened: list[Store] = []

    # A busy machine is no outage.
    defaults = {"dsn": headgate_database, "connect_timeout_ms": 30_000}

    def open_one(**settings: Any) -> Store:
        opened.append(Store(StoreSettings(**{**defaults, **settings})))
        return opened[-1]

    yield open_one
    for store in opened:
        await store.close()


@pytest.fixture
async def store(open_store: OpenStore) -> Store:
    return open_store()


@pytest.fixture
async def observer(headgate_database: str) -> AsyncIterator[Observer]:
    """A session of its own on the database of the test."""
    connection = await asyncpg.connect(headgate_database)
    yield connection
    await connection.close()
