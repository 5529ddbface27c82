"""Fixtures for the tests of Headgate itself. The databases come from `headgate.testing.plugin`."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from headgate.store.store import Store

pytest_plugins = ["headgate.testing.plugin"]


@pytest.fixture
async def store(headgate_database: str) -> AsyncIterator["Store"]:
    """An open store on a fresh database."""
    # TEMPORARY: these move to the top when headgate.store.store can be imported
    from headgate.store.settings import StoreSettings
    from headgate.store.store import Store

    async with Store(StoreSettings(dsn=headgate_database)) as opened:
        yield opened
