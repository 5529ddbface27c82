"""Installations by name, and the completion of a shell."""

import json
import stat
from pathlib import Path

import pytest

from headgate.cli.control_api import Installation
from headgate.cli.installations import DEFAULT_URL, find_installation
from headgate.model.errors import InvalidRequest, NotFound
from tests.cli.conftest import Headgate, Place


def test_a_session_with_two_installations(place: Place, headgate: Headgate, tmp_path: Path) -> None:
    def run(*arguments: str) -> str:
        return headgate(*arguments, HEADGATE_API="").end()

    assert run("context", "list").strip() == "nothing"
    assert run("context", "set", "here", place.url) == f"here is {place.url}\n"
    assert "there is" in run("context", "set", "there", "http://127.0.0.1:1", "--token", "t0k3n")
    place.enqueue("seen-here")
    assert "seen-here" in run("jobs", "list")
    assert run("context", "use", "there") == "using there\n"
    assert "cannot reach http://127.0.0.1:1" in run("jobs", "list")
    assert "seen-here" in run("jobs", "list", "--context", "here")
    shown = json.loads(run("context", "list", "-o", "json"))
    assert shown == [
        {"name": "here", "url": place.url, "token": False, "current": False},
        {"name": "there", "url": "http://127.0.0.1:1", "token": True, "current": True},
    ]
    assert "t0k3n" not in run("context", "list")
    file = tmp_path / ".config" / "headgate" / "contexts.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert run("context", "remove", "there") == "removed there\n"
    assert "context there" in run("context", "use", "there")
    assert "is no URL" in run("context", "set", "x", "nowhere")


def test_a_shell_completes_commands_and_names(headgate: Headgate) -> None:
    headgate("context", "set", "production", "http://127.0.0.1:1").end()
    for typed, expected in (
        ("headgate rate", "rate-classes"),
        ("headgate jobs ex", "explain"),
        ("headgate jobs list --wa", "--watch"),
        ("headgate context use pr", "production"),
        ("headgate jobs list --context pr", "production"),
    ):
        terminal = headgate(
            _HEADGATE_COMPLETE="complete_bash",
            COMP_WORDS=typed,
            COMP_CWORD=str(len(typed.split()) - 1),
        )
        assert expected in terminal.end().split(), typed


def test_what_is_said_last_wins(tmp_path: Path) -> None:
    file = tmp_path / "contexts.json"
    file.write_text('{"contexts":{"a":{"url":"http://a","token":"of a"},"b":{"url":"http://b"}},'
                    '"current":"a"}')  # fmt: skip
    base = {"HEADGATE_CONFIG": str(file)}
    everything = {
        **base,
        "HEADGATE_CONTEXT": "b",
        "HEADGATE_API": "http://env",
        "HEADGATE_TOKEN": "env",
    }
    assert find_installation(environment=base) == Installation("http://a", "of a")
    assert find_installation(environment=everything) == Installation("http://env", "env")
    assert find_installation(context="a", environment=everything).token == "of a"
    assert find_installation(context="b", environment=everything) == Installation("http://b", "env")
    assert find_installation(url="http://c", token="t", environment=everything) == Installation(
        "http://c", "t"
    )
    del everything["HEADGATE_API"]
    assert find_installation(environment=everything).url == "http://b"
    nowhere = {"HEADGATE_CONFIG": str(tmp_path / "none.json")}
    assert find_installation(environment=nowhere) == Installation(DEFAULT_URL)
    with pytest.raises(NotFound):
        find_installation(context="z", environment=base)
    file.write_text("{")
    with pytest.raises(InvalidRequest, match="cannot read"):
        find_installation(environment=base)
