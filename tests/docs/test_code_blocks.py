"""What the pages print is true: Python runs, commands exist with the options they are given."""

import ast
import asyncio
import inspect
import linecache
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import click
import pytest
from django.conf import settings  # type: ignore[import-untyped]  # it carries no types
from django.db import connections  # type: ignore[import-untyped]  # nor does this
from sqlalchemy import make_url
from typer.main import get_command

from headgate.cli.main import application
from tests.docs.exercises import EXERCISES
from tests.docs.given import GIVEN
from tests.docs.pages import DOCS, PAGES, Block, blocks, name_of
from tests.docs.shop import write_shop

TUTORIALS: Final = {DOCS / "tutorial" / "first-steps.md", DOCS / "tutorial" / "importer.md"}
# Tutorials are typed elsewhere; what a decision turned down is not there to be run.
WITH_PYTHON: Final = [
    page
    for page in PAGES
    if page not in TUTORIALS
    and page.parent.name != "decisions"
    and any(block.language == "python" for block in blocks(page))
]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The application that other pages import."""
    write_shop(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PAYLOAD_KEY", "07" * 32)
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        del sys.modules[name]


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("page", WITH_PYTHON, ids=name_of)
def test_python_runs_as_it_is_printed(
    page: Path, headgate_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_DATABASE_URL", headgate_database)
    if page.name == "django.md":
        set_django_up(headgate_database)
    module = ModuleType("printed_" + page.stem.replace("-", "_"))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    given = Block("python", GIVEN.get(name_of(page), ""))
    for number, block in enumerate([given, *blocks(page)]):
        if block.language == "python":
            run(module, block, f"{page}:{number}", headgate_database)
    exercise = EXERCISES.get(page.relative_to(DOCS.parent).as_posix())
    if exercise is not None:
        asyncio.run(exercise(module, headgate_database))


def set_django_up(dsn: str) -> None:
    """The database that a project of Django has in its settings."""
    if not settings.configured:
        settings.configure()
    url = make_url(dsn)
    named = {"NAME": url.database, "USER": url.username, "PASSWORD": url.password or ""}
    placed = {"HOST": url.host, "PORT": url.port, "ENGINE": "django.db.backends.postgresql"}
    # Once it is read, it is kept there; other tests may have read other settings.
    vars(connections)["settings"] = connections.configure_settings({"default": named | placed})


def run(module: ModuleType, block: Block, name: str, dsn: str) -> None:
    text = block.text.replace("postgresql://user@host/database", dsn)
    # What asks for the source of a function, or for its annotations, finds it.
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    code = compile(text, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    answer: Any = eval(code, vars(module))  # printed in our own pages
    if inspect.iscoroutine(answer):
        asyncio.run(answer)


def test_every_exercise_is_for_a_page() -> None:
    assert set(EXERCISES) <= {name_of(page) for page in WITH_PYTHON}


COMMAND: Final = re.compile(r"^(?:\$ )?(?:.*\$\()?(?:\S*/)?(headgate(?: .*)?)$")


def commands(page: Path) -> Iterator[str]:
    """The commands of ours that the page prints, each on one line."""
    for block in blocks(page):
        if block.language in ("", "console", "sh", "bash"):
            for line in block.text.replace("\\\n", " ").splitlines():
                if found := COMMAND.match(line.strip()):
                    yield found[1].partition(")")[0].partition(" #")[0]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_exist_with_their_options(page: Path) -> None:
    for line in commands(page):
        if "[" in line:  # a synopsis
            continue
        found: Any = get_command(application)
        words = shlex.split(line)[1:]
        while words and hasattr(found, "get_command") and not words[0].startswith("-"):
            name = words.pop(0)
            found = found.get_command(click.Context(found), name)
            assert found is not None, f"{line}: no {name}"
        known = {option for parameter in found.params for option in parameter.opts}
        known |= {option for parameter in found.params for option in parameter.secondary_opts}
        for word in words:
            if word.startswith("-"):
                option = word.partition("=")[0]
                assert option in known | {"--help"}, f"{line}: no {option}"
