"""Fixtures for the tests of Headgate itself. The databases come from `headgate.testing.plugin`."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest_plugins = ["headgate.testing.plugin"]


@pytest.fixture
async def store(headgate_database: str) -> AsyncIterator[Any]:
    """An open store on a fresh database."""
    # TEMPORARY: moves to the top when the module exists
    from headgate.store.store import Store, StoreSettings

    opened = await Store.open(StoreSettings(dsn=headgate_database))
    yield opened
    await opened.close()
