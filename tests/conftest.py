"""Fixtures for the tests of Headgate itself. The databases come from `headgate.testing.plugin`."""

from collections.abc import AsyncIterator

import pytest

from headgate.store.settings import StoreSettings
from headgate.store.store import Store

pytest_plugins = ["headgate.testing.plugin"]


@pytest.fixture
async def store(headgate_database: str) -> AsyncIterator[Store]:
    """An open store on a fresh database."""
    async with Store(StoreSettings(dsn=headgate_database, connect_timeout_ms=30_000)) as opened:
        yield opened
