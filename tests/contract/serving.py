"""`headgate api` as a process, for the tests that need one."""

import http.client
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

COMMAND: Final = (sys.executable, "-m", "headgate.cli")
ROOT: Final = Path(__file__).parents[2]
LIMIT_S: Final = 30

Process: TypeAlias = "subprocess.Popen[str]"
Start: TypeAlias = Callable[..., Process]
Address: TypeAlias = tuple[str, int]


def environment_for(dsn: str | None, **variables: str) -> dict[str, str]:
    """The environment of a command that is to use the database of `dsn`."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    environment.pop("HEADGATE_DATABASE_URL", None)
    if dsn is not None:
        environment["HEADGATE_DATABASE_URL"] = dsn
    return environment


@contextmanager
def starting(directory: Path) -> Iterator[Start]:
    """What starts servers, all of which are gone after the block."""
    started: list[Process] = []

    def run(dsn: str | None, *arguments: str, port: int = 0, **variables: str) -> Process:
        process = subprocess.Popen(
            [*COMMAND, "api", "--port", str(port), *arguments],
            env=environment_for(dsn, **variables),
            cwd=directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def address_of(process: Process) -> Address:
    """Waits for the line that says where it listens."""
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"serving (\S+)", line):
            parts = urlsplit(found[1])
            return str(parts.hostname), int(parts.port or 0)
    raise AssertionError("it ended before it served")


def ask(
    address: Address, method: str, path: str, *, headers: Mapping[str, str] | None = None
) -> tuple[int, bytes]:
    """Status and body of the answer, on a connection of its own."""
    connection = http.client.HTTPConnection(*address, timeout=LIMIT_S)
    connection.request(method, path, headers=dict(headers or {}))
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def begin(address: Address, path: str) -> tuple[http.client.HTTPConnection, Any]:
    """An answer that is not read to its end yet; the connection is to be closed."""
    connection = http.client.HTTPConnection(*address, timeout=LIMIT_S)
    connection.request("GET", path)
    return connection, connection.getresponse()


def complaint(process: Process) -> str:
    """The one line that a process leaves when it does not start."""
    output, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1, errors
    assert output == ""
    (line,) = errors.splitlines()
    return line
