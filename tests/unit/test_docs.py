"""The pages agree with the code and with each other."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def test_the_lifecycle_page_is_drawn_from_the_table() -> None:
    drawing = runpy.run_path(str(DOCS / "draw_lifecycle.py"))
    page = (DOCS / "explanation" / "lifecycle.md").read_text()
    assert page == drawing["drawn"](page), "stale: run python docs/draw_lifecycle.py"


def test_every_guarantee_names_a_test_that_exists() -> None:
    rows = re.findall(
        r"^\| (?!holds)(\S.*) \| (.+) \|$", (DOCS / "guarantees.md").read_text(), re.M
    )
    assert rows
    for promise, proofs in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", proofs)
        assert named, promise
        for file, function in named:
            defined = rf"^ *(async )?def {function}\("
            assert re.search(defined, (ROOT / file).read_text(), re.M), f"{file} has no {function}"


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_decision_is_listed() -> None:
    index = (DOCS / "README.md").read_text()
    for record in (DOCS / "decisions").glob("*.md"):
        assert f"decisions/{record.name}" in index


def test_the_reference_is_generated_from_the_code() -> None:
    generate = runpy.run_path(str(DOCS / "generate.py"))
    for page, content in generate["pages"]().items():
        assert page.read_text(encoding="utf-8") == generate["tidy"](content), (
            f"{page.name} is stale: run python docs/generate.py"
        )


def test_no_page_has_a_link_that_leads_nowhere(tmp_path: Path) -> None:
    # Every page is read and every link resolved; only HTML is not written.
    read = [sys.executable, "-m", "sphinx", "-b", "dummy", "-q", "-W", "--keep-going"]
    done = subprocess.run([*read, str(DOCS), str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
