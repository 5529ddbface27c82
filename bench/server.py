"""The server that a bench runs against, its databases, and the processor time it uses."""

import asyncio
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
from sqlalchemy import make_url

from headgate.local.server import LocalServer

_TICK = os.sysconf("SC_CLK_TCK")


class BenchServer:
    """A running server with the settings that PostgreSQL ships with, but for the memory."""

    def __init__(self, dsn: str, pid: int) -> None:
        self.dsn = dsn
        self._pid = pid

    def new_database(self) -> str:
        """The DSN of an empty database."""
        name = f"bench_{secrets.token_hex(4)}"
        asyncio.run(self._execute(f'CREATE DATABASE "{name}"'))
        return make_url(self.dsn).set(database=name).render_as_string(hide_password=False)

    def drop_database(self, dsn: str) -> None:
        name = make_url(dsn).database
        asyncio.run(self._execute(f'DROP DATABASE "{name}" WITH (FORCE)'))

    def cpu_seconds(self) -> float:
        """Processor time of the server since its start: its processes, and those that ended."""
        return cpu_seconds_of(self._pid, ended=True) + sum(
            cpu_seconds_of(child) for child in _children(self._pid)
        )

    async def _execute(self, statement: str) -> None:
        connection = await asyncpg.connect(self.dsn)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


@contextmanager
def bench_server() -> Iterator[BenchServer]:
    """A server of our own for the time of a bench."""
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as directory:
        os.chmod(directory, 0o755)
        server = LocalServer(
            Path(directory) / "data",
            settings={"shared_buffers": "512MB", "max_wal_size": "4GB", "jit": "off"},
        )
        try:
            with server.hold() as status:
                yield BenchServer(status.dsn, status.pid)
        finally:
            # Its files are removed next; left to itself it may still be writing them.
            server.stop()


def cpu_seconds_of(pid: int, *, ended: bool = False) -> float:
    """Processor time of a process, with `ended` also that of the children it has outlived."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    ticks = int(fields[11]) + int(fields[12])
    if ended:
        ticks += int(fields[13]) + int(fields[14])
    return ticks / _TICK


def _children(pid: int) -> list[int]:
    return [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]
