"""The control API on a fresh database, called in the process of the test."""

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.api.application import create_app
from headgate.api.config import ApiConfig
from headgate.store.store import Store
from tests.contract.client import Client
from tests.contract.serving import Start, starting


@pytest.fixture
async def client(store: Store) -> Client:
    return Client(create_app(store))


@pytest.fixture
async def read_only(store: Store) -> Client:
    return Client(create_app(store, ApiConfig(read_only=True)))


@pytest.fixture
def empty_database(headgate_clones: Any) -> Iterator[str]:
    """The DSN of a database in which nobody has installed anything."""
    name = f"headgate_empty_{secrets.token_hex(4)}"
    yield headgate_clones.clone("template0", name)
    headgate_clones.drop(name)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts `headgate api`."""
    with starting(tmp_path) as run:
        yield run


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tells how many requests the tests made that count them."""
    made = [
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", "") == "teardown"
        for name, value in report.user_properties
        if name == "requests"
    ]
    if made:
        terminalreporter.write_line(f"{sum(made)} requests by {len(made)} tests")
