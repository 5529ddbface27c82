"""`python -m bench.api [--quick] [--json]`: requests a second that one process of the API answers.

16 connections ask without pause, each for the next answer as soon as it has one. Beside it an empty
route of Starlette, served alike, says what the framework takes by itself. `python` and `postgres`
are microseconds of processor time per request, and how much of one processor each kept busy.
"""

import asyncio
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

import msgspec
import uvloop
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from bench.report import arguments
from bench.server import BenchServer, bench_server, cpu_seconds_of
from headgate.model.envelope import Envelope
from headgate.store import migration
from headgate.store.settings import StoreSettings
from headgate.store.store import Store
from tests.contract.serving import Address, address_of, starting
from tests.forks import anew

EMPTY: Final = Starlette(routes=[Route("/", lambda request: Response(b"{}"))])

_CONNECTIONS: Final = 16
_JOBS: Final = 10_000
_PAYLOAD: Final = b'{"kind":"bench","queue":"mail","payload":"eyJ1c2VyIjoxN30="}'
_LENGTH: Final = re.compile(rb"content-length: ([0-9]+)", re.IGNORECASE)


class Rate(msgspec.Struct, frozen=True):
    """Of one kind of request."""

    name: str
    requests_per_s: float
    python_us: float
    python_busy: float
    postgres_us: float
    postgres_busy: float


class Connection(asyncio.Protocol):
    """Asks again whenever an answer is complete, until it is told to stop."""

    def __init__(self, requests: Iterator[bytes], answers: "Answers") -> None:
        self._requests = requests
        self._answers = answers
        self._received = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.write(next(self._requests))

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not found or length is None or len(body) < int(length[1]):
            return
        self._answers.take(head)
        self._received = b""
        self._transport.write(next(self._requests))


class Answers:
    """How many came."""

    def __init__(self) -> None:
        self.number = 0

    def take(self, head: bytes) -> None:
        """Raises `AssertionError` for one that is no success."""
        assert head.startswith(b"HTTP/1.1 20"), head
        self.number += 1


async def load(
    name: str, address: Address, requests: Iterator[bytes], pid: int, server: BenchServer, s: float
) -> Rate:
    """Asks one process for `s` seconds, after a fifth of that to get warm."""
    answers = Answers()
    loop = asyncio.get_running_loop()
    transports = [
        (await loop.create_connection(lambda: Connection(requests, answers), *address))[0]
        for _ in range(_CONNECTIONS)
    ]
    await asyncio.sleep(s / 5)
    begun, number = time.perf_counter(), answers.number
    python, postgres = cpu_seconds_of(pid), server.cpu_seconds()
    await asyncio.sleep(s)
    took, number = time.perf_counter() - begun, answers.number - number
    python, postgres = cpu_seconds_of(pid) - python, server.cpu_seconds() - postgres
    for transport in transports:
        transport.abort()
    return Rate(
        name,
        round(number / took),
        round(python / number * 1e6),
        round(python / took, 2),
        round(postgres / number * 1e6),
        round(postgres / took, 2),
    )


def getting(path: str) -> Iterator[bytes]:
    request = f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()
    while True:
        yield request


def enqueuing() -> Iterator[bytes]:
    head = (
        "POST /api/v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"content-length: {len(_PAYLOAD)}\r\nidempotency-key: "
    ).encode()
    for number in count():
        yield b"%s%d\r\n\r\n%s" % (head, number, _PAYLOAD)


@contextmanager
def empty_route() -> Iterator[tuple[int, Address]]:
    """A server with nothing but an empty route: its process and its address."""
    command = [sys.executable, "-m", "uvicorn", "bench.api:EMPTY", "--port", "0"]
    command += ["--no-access-log", "--lifespan", "off", "--loop", "uvloop", "--http", "httptools"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if found := re.search(r"running on http://([0-9.]+):([0-9]+)", line):
                yield process.pid, (found[1], int(found[2]))
                return
        raise AssertionError("it ended before it served")
    finally:
        process.kill()
        process.communicate()


async def fill(dsn: str) -> None:
    async with Store(StoreSettings(dsn=dsn)) as store:
        for start in range(0, _JOBS, 1_000):
            await store.producer.enqueue(
                [
                    Envelope(kind="bench", queue="mail", id=f"job-{start + number}")
                    for number in range(1_000)
                ]
            )


async def rates(server: BenchServer, dsn: str, s: float) -> list[Rate]:
    with empty_route() as (pid, address):
        found = [await load("an empty route", address, getting("/"), pid, server, s)]
    await fill(dsn)
    with tempfile.TemporaryDirectory() as directory, starting(Path(directory), anew) as start:
        process = start(dsn)
        address = address_of(process)
        for name, requests in (
            ("GET /jobs/{id}", getting("/api/v1/jobs/job-17")),
            ("GET /jobs?limit=50", getting("/api/v1/jobs?limit=50")),
            ("POST /jobs", enqueuing()),
        ):
            found.append(await load(name, address, requests, process.pid, server, s))
    return found


def main() -> None:
    options = arguments(__doc__.splitlines()[0])
    with bench_server() as server:
        dsn = server.new_database()
        asyncio.run(migration.upgrade(dsn, "public"))
        found = uvloop.run(rates(server, dsn, 2 if options.quick else 10))
    if options.json:
        print(msgspec.json.encode(found).decode())
        return
    print(
        f"{'':20} {'requests/s':>10} {'python us':>10} {'busy':>6} {'postgres us':>12} {'busy':>6}"
    )
    for each in found:
        print(
            f"{each.name:20} {each.requests_per_s:>10,} {each.python_us:>10,} {each.python_busy:>6}"
            f" {each.postgres_us:>12,} {each.postgres_busy:>6}"
        )


if __name__ == "__main__":
    main()
