"""What the pages print is true: Python runs, commands exist with the options they are given."""

import ast
import asyncio
import inspect
import json
import linecache
import re
import shlex
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import click
import msgspec
import pytest
import yaml
from django.conf import settings  # type: ignore[import-untyped]  # it carries no types
from django.db import connections  # type: ignore[import-untyped]  # nor does this
from sqlalchemy import make_url
from typer.main import get_command

from headgate.api.operations import Operation
from headgate.api.table import OPERATIONS
from headgate.cli.main import application
from tests.docs.exercises import EXERCISES
from tests.docs.given import GIVEN
from tests.docs.pages import DOCS, PAGES, ROOT, Block, blocks, name_of
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


SHELLS: Final = ("", "console", "sh", "bash")
COMMAND: Final = re.compile(
    r"^(?:\$ )?(?:ExecStart=|export \w+=\$\(|\w+=\S+ )?(?:\S*/)?(headgate(?: [^>#)]*)?)"
)


def lines(page: Path) -> Iterator[str]:
    """What the page lets its readers type, each command on one line."""
    for block in blocks(page):
        if block.language in SHELLS:
            text = re.sub(r"\\?\n(?=  )", " ", block.text)
            yield from (line.strip() for line in text.splitlines())


def leaf(words: list[str]) -> tuple[Any, list[str]]:
    """The command that these words name, and what is left for it to read."""
    found: Any = get_command(application)
    while words and hasattr(found, "get_command") and not words[0].startswith("-"):
        name, *words = words
        group = found
        found = group.get_command(click.Context(group), name)
        assert found is not None, f"no {name} in {group.name}"
    return found, words


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_are_understood(page: Path) -> None:
    for line in lines(page):
        if (typed := COMMAND.match(line)) and "[" not in line:  # which is a synopsis
            command, words = leaf(shlex.split(typed[1])[1:])
            if "--help" not in words and "--install-completion" not in words:
                command.make_context(command.name, words)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_in_the_text_exist(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for typed in re.findall(r"`(headgate(?: [^`]*)?)`", text):
        command, words = leaf(shlex.split(typed)[1:])
        known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
        options = {word.partition("=")[0] for word in words if word.startswith("-")}
        assert options <= known | {"--help", "--install-completion"}, typed


def operation_of(method: str, path: str) -> Operation:
    """The operation that a request reaches."""
    (found,) = (
        each
        for each in OPERATIONS
        if each.method == method and re.fullmatch(re.sub(r"{\w+}", "[^/]+", each.path), path)
    )
    return found


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_requests_are_those_of_the_api(page: Path) -> None:
    for line in lines(page):
        if not line.removeprefix("$ ").startswith("curl "):
            continue
        words = shlex.split(line.replace("$API", "http://here"))
        (url,) = (urlsplit(word) for word in words if word.startswith("http"))
        said = dict(pairwise(words))
        operation = operation_of(said.get("-X", "POST" if "-d" in said else "GET"), url.path)
        query = dict(parse_qsl(url.query + "&" + said.get("--data-urlencode", "")))
        known = getattr(operation.query_type, "__struct_fields__", ())
        assert set(query) <= set(known), line
        if "-d" in said and "$(" not in line:
            msgspec.json.decode(said["-d"], type=operation.body_type)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_that_are_shown_can_be_read(page: Path) -> None:
    for block in blocks(page):
        if block.language == "yaml":
            yaml.safe_load(block.text)
        elif block.language == "json":
            for line in block.text.splitlines():
                json.loads(line)


def test_alerts_ask_for_metrics_that_exist() -> None:
    page = DOCS / "how-to" / "metrics.md"
    rules = [
        rule
        for block in blocks(page)
        if block.language == "yaml" and isinstance(found := yaml.safe_load(block.text), list)
        for rule in found
    ]
    assert rules
    told = (ROOT / "headgate" / "api" / "metrics.py").read_text(encoding="utf-8")
    for rule in rules:
        for name in re.findall(r"headgate_\w+", rule["expr"]):
            assert f'"{name}"' in told, name
