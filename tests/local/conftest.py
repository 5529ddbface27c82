"""Servers of one test alone."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from headgate.local import UNSAFE_BUT_FAST, LocalServer, temporary_directory
from headgate.local.locks import is_locked

COMMAND = (sys.executable, "-m", "headgate.cli", "local")


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """An empty data directory; afterwards its server is stopped and it is removed."""
    path = temporary_directory(in_memory=True)
    yield path
    LocalServer(path).stop()
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def server(data_dir: Path) -> LocalServer:
    """A server that is not started yet and does not sync."""
    return LocalServer(data_dir, settings=UNSAFE_BUT_FAST)


@pytest.fixture
def environment() -> Mapping[str, str]:
    """The environment of a subprocess that is to run this checkout's code."""
    paths = (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", ""))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def eventually(condition: Callable[[], bool], *, limit_ms: int = 20_000) -> None:
    """Wait until `condition` holds."""
    end = time.monotonic() + limit_ms / 1000
    while not condition():
        assert time.monotonic() < end, "the condition did not come true in time"
        time.sleep(0.01)


def gone(server: LocalServer) -> bool:
    """Whether no process of the server is left."""
    return not is_locked(server.directory.running_lock)
