"""Databases that nothing was migrated in, and a revision after the newest."""

import re
import secrets
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import asyncpg
import pytest
from alembic import command
from alembic.config import Config

from headgate.store import migration, revisions
from headgate.testing.clones import Clones

REPOSITORY = Path(__file__).parents[2]
NEXT = f"{int(revisions.NEWEST) + 1:04d}"

Session: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


@pytest.fixture
async def session(headgate_database: str) -> AsyncIterator[Session]:
    """A session of somebody else on the migrated database."""
    opened = await asyncpg.connect(headgate_database)
    yield opened
    await opened.close()


@pytest.fixture
def new_database(headgate_clones: Clones) -> Iterator[Callable[[], str]]:
    """Makes empty databases; afterwards they are dropped."""
    names: list[str] = []

    def create() -> str:
        names.append(f"headgate_migration_{secrets.token_hex(4)}")
        return headgate_clones.clone("template0", names[-1])

    yield create
    for name in names:
        headgate_clones.drop(name)


@pytest.fixture
def empty_database(new_database: Callable[[], str]) -> str:
    """The DSN of an empty database."""
    return new_database()


@pytest.fixture
def next_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Adds a revision with these statements in `upgrade` and `downgrade`; this code knows it then.

    It is made from the template, as a developer would, in a copy of the folder.
    """
    folder = shutil.copytree(REPOSITORY / "alembic", tmp_path / "alembic")
    config = Config(REPOSITORY / "alembic.ini")
    config.set_main_option("script_location", str(folder))
    monkeypatch.setattr(migration, "_folder", lambda: folder)
    monkeypatch.setattr(migration, "LOCK_TIMEOUT_MS", 200)
    monkeypatch.setattr(migration, "_PAUSE_MS", 20)

    def add(upgrade: str, downgrade: str) -> None:
        command.revision(config, message="the next", rev_id=NEXT)
        (path,) = folder.glob(f"versions/{NEXT}_*.py")
        bodies = iter((upgrade, downgrade))
        source, filled = re.subn(
            r"    # (Change it|Take it back)\.\n", lambda _: next(bodies), path.read_text()
        )
        assert filled == 2
        path.write_text(source)
        monkeypatch.setattr(revisions, "NEWEST", NEXT)

    return add
