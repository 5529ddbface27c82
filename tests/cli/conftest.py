"""One installation for all tests of the command: a database, its API, and a worker on it."""

import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import pytest

from headgate.cli.control_api import ControlApi, Installation
from headgate.testing.clones import Clones
from tests.cli.terminal import LIMIT_S, Terminal
from tests.forks import Fork
from tests.forks import headgate as command

APPLICATION = """
from headgate import ApiConfig, Headgate, Keyring, PayloadEncryption, Skip

encryption = PayloadEncryption(Keyring("k1", {"k1": bytes(32)}))
config = ApiConfig(revealer=encryption.reveal)
app = Headgate(workflows=True)

@app.task("quick", queue="quick", retention_ms=3_600_000)
def quick() -> str:
    return "done"

@app.task("bad", queue="quick")
def bad() -> None:
    raise Skip("broken")

@app.task("secret", encryption=encryption)
def secret(payload: str) -> None: ...
"""

Headgate: TypeAlias = Callable[..., Terminal]
Found = TypeVar("Found")


class Place:
    """Where the installation is, and what a user's environment says of it."""

    def __init__(self, dsn: str, url: str, home: Path) -> None:
        self.dsn = dsn
        self.url = url
        self.environment = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "TERM": "xterm",
            "NO_COLOR": "1",
            "TZ": "UTC",
            "HEADGATE_API": url,
        }
        self.api = ControlApi(Installation(url))

    def enqueue(self, job_id: str, kind: str = "none", **fields: Any) -> None:
        body = {"kind": kind, "payload": "e30=", "id": job_id, "queue": "idle", **fields}
        self.api.send("POST", "/jobs", body)

    def state(self, job_id: str) -> str:
        return str(self.api.get(f"/jobs/{job_id}")["state"])


@pytest.fixture(scope="package")
def place(
    headgate_clones: Clones, headgate_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("cli")
    (directory / "place_of_jobs.py").write_text(APPLICATION)
    name = f"headgate_cli_{secrets.token_hex(4)}"
    dsn = headgate_clones.clone(headgate_template, name)
    environment = {**os.environ, "HEADGATE_DATABASE_URL": dsn}
    sys.path.insert(0, str(directory))  # where the application is found, by forks
    api, worker = (
        Fork(command(*words.split()), directory=directory, environment=environment)
        for words in (
            "api place_of_jobs:config --port 0",
            "worker place_of_jobs:app --worker-id the-worker",
        )
    )
    try:
        yield Place(dsn, api.until_told(r"serving (\S+)")[1], directory)
    finally:
        sys.path.remove(str(directory))
        for process in (api, worker):
            process.kill()
        headgate_clones.drop(name)


@pytest.fixture
def headgate(place: Place, tmp_path: Path) -> Iterator[Headgate]:
    """Runs the command in a terminal; a home of its own holds its configuration."""
    started: list[Terminal] = []

    def run(*arguments: str, **variables: str) -> Terminal:
        environment = {**place.environment, "HOME": str(tmp_path), **variables}
        started.append(
            Terminal(*arguments, environment={k: v for k, v in environment.items() if v})
        )
        return started[-1].__enter__()

    yield run
    for terminal in started:
        terminal.__exit__()
    clean(place.api)


def clean(api: ControlApi) -> None:
    """Takes away what tests leave behind."""
    ids = [found["id"] for found in api.paged("/jobs", "jobs")]
    for action in ("cancel", "delete"):
        api.send("POST", "/jobs/actions", {"action": action, "ids": ids})
    for queue in ("idle", "quick"):
        api.send("POST", f"/queues/{queue}/resume")
    for path in ("periodic", "rate-classes", "concurrency-limits", "quarantine"):
        for entry in list(api.listed(f"/{path}")):
            name = entry.get("id") or entry.get("name") or entry.get("fingerprint")
            api.send("DELETE", f"/{path}/{name}")


def until(condition: Callable[[], Found | None]) -> Found:
    """What the condition finds, once it does."""
    end = time.monotonic() + LIMIT_S
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found
