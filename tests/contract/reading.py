"""The API on a filled database, and what the statements of a request touch there."""

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import asyncpg
from sqlalchemy import Executable

from headgate.api.application import create_app
from headgate.store.database import GATE_SETTINGS, READ_SETTINGS, Database, Row
from headgate.store.settings import StoreSettings
from headgate.store.store import Store
from tests.contract.client import Answer, Client
from tests.store.plans import Node, PlanMode, pages_read, plan_of
from tests.store.rows import Observer

_NAMES: Final = """
SELECT (SELECT ulid FROM headgate_job WHERE state = 'available' AND queue = 'q000'
    AND rate_class = 'class3' ORDER BY priority DESC, scheduled_at_ms, id LIMIT 1) AS first,
  (SELECT ulid FROM headgate_job WHERE state = 'available' AND queue = 'q000'
    AND rate_class = 'class3' ORDER BY priority, scheduled_at_ms DESC, id DESC LIMIT 1) AS last,
  (SELECT ulid FROM headgate_job ORDER BY id DESC LIMIT 1) AS newest,
  (SELECT max(id) / 2 FROM headgate_job)::text AS middle
"""


class Cost(NamedTuple):
    """Pages of 8 kB that the statements of a request touched: the dearest, and all together.

    `windows`: it searched among more rows than a page has. `kinds`: it followed several kinds.
    """

    most: int
    total: int
    windows: bool
    kinds: bool


class Asked(NamedTuple):
    """A statement: its parameters and how it was carried out."""

    parameters: Mapping[str, Any]
    plan: list[Node]


class Reading:
    """Asks for the time that an answer takes, and for the plans of its statements.

    A target may name jobs of the database: `{first}` and `{last}` of a long line, `{newest}` of
    all; `{middle}` is a cursor to the middle of all.
    """

    def __init__(
        self, store: Store, readers: Mapping[Database, Observer], names: Mapping[str, str]
    ) -> None:
        self._client = Client(create_app(store), prefix="")
        self._readers = readers
        self._names = names
        self._asked: list[tuple[Database, Executable, Mapping[str, Any]]] | None = None
        for database in readers:
            self._record(database)

    async def ask(self, target: str) -> Answer:
        return await self._client.get(self._filled(target))

    async def ms(self, target: str) -> float:
        """How long an answer takes."""
        target = self._filled(target)
        begun = time.perf_counter()
        await self._client.get(target)
        return (time.perf_counter() - begun) * 1000

    async def plans(self, target: str, mode: PlanMode) -> list[Asked]:
        """The statements of a request, each with its plan."""
        asked: list[tuple[Database, Executable, Mapping[str, Any]]] = []
        self._asked = asked
        await self.ask(target)
        self._asked = None
        return [
            Asked(parameters, await plan_of(self._readers[database], statement, parameters, mode))
            for database, statement, parameters in asked
        ]

    async def cost(self, target: str) -> Cost:
        """What a request touches, with plans made for any parameters."""
        asked = await self.plans(target, "force_generic_plan")
        pages = [pages_read(each.plan) for each in asked]
        pieces = [each.parameters for each in asked if "stream_size" in each.parameters]
        windows = len(pieces) > 1 or any(each["stream_size"] > each["page_size"] for each in pieces)
        kinds = any(each["wanted_kinds"] for each in pieces)
        return Cost(max(pages, default=0), sum(pages), windows, kinds)

    def _filled(self, target: str) -> str:
        for name, value in self._names.items():
            target = target.replace("{" + name + "}", value)
        return target

    def _record(self, database: Database) -> None:
        fetch = database.fetch

        async def recorded(
            statement: Executable, parameters: Mapping[str, Any] | None = None
        ) -> list[Row]:
            if self._asked is not None:
                self._asked.append((database, statement, parameters or {}))
            return await fetch(statement, parameters)

        database.fetch = recorded  # type: ignore[method-assign]  # to look at what is asked


@asynccontextmanager
async def reading_on(dsn: str) -> AsyncIterator[Reading]:
    """The API on a filled database."""
    async with Store(StoreSettings(dsn=dsn)) as store:
        settings = {store.database: READ_SETTINGS, store.hot_path: GATE_SETTINGS}
        readers = {
            database: await asyncpg.connect(dsn, server_settings={"jit": "off", **each})
            for database, each in settings.items()
        }
        try:
            names = await readers[store.database].fetch(_NAMES)
            yield Reading(store, readers, dict(names[0]))
        finally:
            for reader in readers.values():
                await reader.close()
