"""The tutorials, typed as they are printed, on a machine that has nothing but the checkout."""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from headgate.cli.control_api import ControlApi, Installation
from headgate.cli.exits import ApiError
from headgate.local import temporary_directory
from tests.docs.pages import DOCS, ROOT, blocks
from tests.forks import Fork, headgate, python

LIMIT_S: Final = 60
EXPORT: Final = re.compile(r"export (\w+)=\$\((.*)\)")
PROGRAMS: Final[Mapping[str, Callable[..., Callable[[], object]]]] = {
    "headgate": headgate,
    "python": python,
}


class Reader:
    """Somebody who does what a tutorial says, in an empty directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        url = f"http://127.0.0.1:{self._port}"
        self.api = ControlApi(Installation(url))
        self._environment = {
            **{name: value for name, value in os.environ.items() if "HEADGATE" not in name},
            "PYTHONPATH": f"{ROOT}:{directory}",
            "HEADGATE_API": url,
            "HOME": str(directory),
        }
        self._running: subprocess.Popen[bytes] | None = None

    def follow(self, page: Path) -> None:
        """Saves what is to be saved and types what is to be typed; each must succeed."""
        for block in blocks(page):
            if block.language == "python":
                assert block.file, "a block that is not saved anywhere"
                (self._directory / block.file).write_text(block.text)
            elif block.text.startswith("headgate dev"):
                self._start(block.text)
            elif "make setup" not in block.text:
                for line in block.text.splitlines():
                    self._type(line.replace("127.0.0.1:8080", f"127.0.0.1:{self._port}"))

    def stop(self) -> None:
        if self._running is not None:
            self._running.send_signal(signal.SIGINT)
            self._running.wait(LIMIT_S)

    def _start(self, line: str) -> None:
        words = [*line.split()[1:], "--port", str(self._port)]
        self._running = subprocess.Popen(
            [sys.executable, "-m", "headgate.cli", *words],
            cwd=self._directory,
            env=self._environment,
            stderr=subprocess.DEVNULL,
        )
        until(lambda: answers(self.api))

    def _type(self, line: str) -> None:
        if exported := EXPORT.fullmatch(line):
            self._environment[exported[1]] = self._run(exported[2]).strip()
        else:
            self._run(line)

    def _run(self, line: str) -> str:
        program, *words = shlex.split(line)
        if program in PROGRAMS:
            started = Fork(
                PROGRAMS[program](*words), directory=self._directory, environment=self._environment
            )
            done: Any = started.wait()
        else:
            done = subprocess.run(
                [program, *words], cwd=self._directory, capture_output=True, text=True
            )
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        return str(done.stdout)


def answers(api: ControlApi) -> bool:
    try:
        api.get("/meta")
    except ApiError:
        return False
    return True


def until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.fixture
def reader() -> Iterator[Reader]:
    directory = temporary_directory("headgate-tutorial-")
    directory.chmod(0o755)  # as one that somebody makes
    someone = Reader(directory)
    yield someone
    someone.stop()
    shutil.rmtree(directory, ignore_errors=True)


def test_the_first_steps(reader: Reader) -> None:
    reader.follow(DOCS / "tutorial" / "first-steps.md")
    until(lambda: reader.api.get("/jobs/counts", queue="shipping")["counts"] == {})


def test_the_importer(reader: Reader) -> None:
    reader.follow(DOCS / "tutorial" / "importer.md")
    api = reader.api

    def completed(job_id: str) -> bool:
        return bool(api.get(f"/jobs/{job_id}")["state"] == "completed")

    until(lambda: completed("the-small-one") and completed("the-long-one"))
    until(lambda: completed("nightly:coordinator"))
    long = api.get("/jobs/the-long-one")
    (failed, done) = long["errors"][-2:]
    assert failed["error"].startswith("ConnectionError: the line is down")
    assert "from row 5 on" in json.dumps(done)
    assert api.get("/rate-classes/vendor")["limit_per_window"] == 5
    until(lambda: api.get("/jobs/counts", queue="lookups")["counts"] == {"completed": 12})
    assert api.get("/periodic/import%3Areport/enqueue-events")["events"]
