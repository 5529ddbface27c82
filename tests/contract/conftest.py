"""The control API on a fresh database, called in the process of the test."""

import pytest

from headgate.api.application import create_app
from headgate.api.config import ApiConfig
from headgate.store.store import Store
from tests.contract.client import Client


@pytest.fixture
async def client(store: Store) -> Client:
    return Client(create_app(store))


@pytest.fixture
async def read_only(store: Store) -> Client:
    return Client(create_app(store, ApiConfig(read_only=True)))
