"""A browser before the console of a real API, on a database with something in it.

The tests share one event loop, one browser and one installation; what changes something does so to
things of its own.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from headgate.store.settings import StoreSettings
from headgate.store.store import Store
from tests.console.browser import NO_PAGES_OF_ITS_OWN, chromium, launched
from tests.console.screen import WIDE, Screen
from tests.console.seeding import seed
from tests.contract.serving import Start, address_of, starting

pytest.importorskip(
    "playwright.async_api", reason="the tests of the console need playwright: pip install '.[dev]'"
)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Any]:
    found = chromium()
    if found is None:
        pytest.skip("there is no Chromium here: install one, or name it in HEADGATE_CHROMIUM")
    async with launched(found, NO_PAGES_OF_ITS_OWN) as running:
        yield running


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts `headgate api`."""
    with starting(tmp_path_factory.mktemp("api")) as run:
        yield run


@pytest.fixture(scope="session")
def database(headgate_clones: Any, headgate_template: str) -> Iterator[str]:
    """The DSN of a database that is busy."""
    name = f"headgate_console_{secrets.token_hex(4)}"
    dsn: str = headgate_clones.clone(headgate_template, name)
    asyncio.run(seed(dsn))
    yield dsn
    headgate_clones.drop(name)


@pytest.fixture(scope="session")
def site(start: Start, database: str) -> str:
    """Where the console of that database is."""
    host, port = address_of(start(database))
    return f"http://{host}:{port}/"


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_store(database: str) -> AsyncIterator[Store]:
    """A store on that database, for an API of a kind of its own."""
    async with Store(StoreSettings(dsn=database)) as opened:
        yield opened


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def context(browser: Any) -> AsyncIterator[Any]:
    """A person at the browser, who has the files of the console already but for the first time."""
    width, height = WIDE
    made = await browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="light"
    )
    yield made
    await made.close()


@pytest_asyncio.fixture(loop_scope="session")
async def screen(context: Any, site: str) -> AsyncIterator[Screen]:
    """A new tab of that person with the console, before which nothing may go wrong."""
    async with Screen.tab(context, site) as opened:
        yield opened
        opened.assert_clean()
