"""`headgate api` as a process, for the tests that need one."""

import http.client
import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from tests.forks import LIMIT_S, Fork, headgate

# Imported once here, and not by each fork.
for name in ("headgate.cli.api", "headgate.cli.token", "headgate.api.protocol"):
    importlib.import_module(name)

ROOT: Final = Path(__file__).parents[2]

Start: TypeAlias = Callable[..., Fork]
Address: TypeAlias = tuple[str, int]


def environment_for(dsn: str | None, **variables: str) -> dict[str, str]:
    """The environment of a command that is to use the database of `dsn`."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    environment.pop("HEADGATE_DATABASE_URL", None)
    if dsn is not None:
        environment["HEADGATE_DATABASE_URL"] = dsn
    return environment


@contextmanager
def starting(
    directory: Path, command: Callable[..., Callable[[], object]] = headgate
) -> Iterator[Start]:
    """What starts servers, all of which are gone after the block."""
    started: list[Fork] = []

    def run(dsn: str | None, *arguments: str, port: int = 0, **variables: str) -> Fork:
        process = Fork(
            command("api", "--port", str(port), *arguments),
            directory=directory,
            environment=environment_for(dsn, **variables),
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()


def address_of(process: Fork) -> Address:
    """Waits for the line that says where it listens."""
    parts = urlsplit(process.until_told(r"serving (\S+)")[1])
    return str(parts.hostname), int(parts.port or 0)


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


def ended(process: Fork) -> tuple[int, list[str]]:
    """How a server has ended, and the lines it left beside the one that said where it was."""
    code, _, errors = process.wait()
    return code, [line for line in errors.splitlines() if not line.startswith("serving ")]


def complaint(process: Fork) -> str:
    """The one line that a process leaves when it does not start."""
    code, output, errors = process.wait()
    assert (code, output) == (1, ""), errors
    (line,) = errors.splitlines()
    return line
