"""One installation for all tests of the command: a database, its API, and a worker on it."""

import os
import re
import secrets
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from headgate.cli.control_api import ControlApi, Installation
from headgate.testing.clones import Clones
from tests.cli.terminal import Terminal
from tests.contract.serving import COMMAND, ROOT, environment_for

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


@pytest.fixture(scope="module")
def place(
    headgate_clones: Clones, headgate_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("cli")
    (directory / "place_of_jobs.py").write_text(APPLICATION)
    name = f"headgate_cli_{secrets.token_hex(4)}"
    dsn = headgate_clones.clone(headgate_template, name)
    environment = environment_for(dsn, PYTHONPATH=f"{ROOT}:{directory}")
    api = subprocess.Popen(
        [*COMMAND, "api", "place_of_jobs:config", "--port", "0"],
        env=environment,
        cwd=directory,
        stderr=subprocess.PIPE,
        text=True,
    )
    worker = subprocess.Popen(
        [*COMMAND, "worker", "place_of_jobs:app", "--worker-id", "the-worker"],
        env=environment,
        cwd=directory,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert api.stderr is not None
        found = next(filter(None, (re.search(r"serving (\S+)", line) for line in api.stderr)))
        yield Place(dsn, found[1], directory)
    finally:
        for process in (api, worker):
            process.kill()
            process.communicate()
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
