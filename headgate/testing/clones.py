"""Databases for tests: one template that is migrated once, and cheap copies of it."""

import asyncio
import secrets
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import asyncpg

from headgate.local.connection import blocking
from headgate.local.locks import locked
from headgate.store.migration import upgrade
from headgate.testing.databases import CreateDatabase, DropDatabase, dsn_of, execute_ddl

Answer = TypeVar("Answer")

TEMPLATE_LIMIT_MS = 120_000


class Clones:
    """Makes and drops databases on the server of `dsn`, over one connection that it keeps.

    The connection lives on an event loop in a thread of its own, so that tests may use any loop or
    none. `strategy` is that of `CreateDatabase`.
    """

    def __init__(self, dsn: str, *, strategy: str | None = None) -> None:
        self._dsn = dsn
        self._strategy = strategy
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._connection = self._run(asyncpg.connect(dsn))

    def clone(self, template: str, name: str) -> str:
        """Make the database `name` as a copy of `template`; its DSN."""
        self._execute(CreateDatabase(name, template=template, strategy=self._strategy))
        return dsn_of(self._dsn, name)

    def drop(self, name: str) -> None:
        """Drop the database `name`, whoever is connected to it."""
        self._execute(DropDatabase(name))

    def close(self) -> None:
        """Give back the connection and the thread."""
        self._run(self._connection.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _execute(self, element: CreateDatabase | DropDatabase) -> None:
        self._run(execute_ddl(self._connection, element))

    def _run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def migrated_template(dsn: str, run: Path) -> str:
    """The name of the template of `run` on the server of `dsn`; whoever asks first makes it."""
    mark = run / "template"
    with locked(run / "template.lock", limit_ms=TEMPLATE_LIMIT_MS):
        if not mark.exists():
            name = f"headgate_template_{secrets.token_hex(4)}"
            clones = Clones(dsn)
            try:
                clones.clone("template0", name)
                blocking(_prepare(dsn_of(dsn, name)))
            except BaseException:
                clones.drop(name)
                raise
            finally:
                clones.close()
            mark.write_text(name)
        return mark.read_text()


async def _prepare(dsn: str) -> None:
    await upgrade(dsn)
    # A first session leaves what it has learnt of the catalogs in a file, which copies inherit.
    await (await asyncpg.connect(dsn)).close()
