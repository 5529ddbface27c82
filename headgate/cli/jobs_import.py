"""`headgate jobs import`: the jobs of a file, straight into the database."""

import asyncio
import hashlib
import os
import sys
import time
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import IO, Annotated, Final, NamedTuple

import typer

from headgate.cli.job_lines import BadLine, Part, parts
from headgate.cli.progress import Progress
from headgate.model.errors import Backpressure, HeadgateError, InvalidRequest
from headgate.store.settings import StoreSettings
from headgate.store.store import Store

EXIT_FAILED: Final = 1
FULL_POLL_S: Final = 1.0
_READ_BYTES: Final = 1 << 20


class OnError(StrEnum):
    STOP = "stop"
    SKIP = "skip"


class OnFull(StrEnum):
    STOP = "stop"
    WAIT = "wait"


def jobs_import(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A job per line, as JSON; `-` reads stdin.")
    ],
    database_url: Annotated[
        str | None,
        typer.Option(
            "--database-url",
            envvar="HEADGATE_DATABASE_URL",
            help="Such as postgresql://user@host/database.",
            show_default=False,
        ),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            "--schema",
            envvar="HEADGATE_SCHEMA",
            help="The PostgreSQL schema that holds the tables.  [default: public]",
            show_default=False,
        ),
    ] = None,
    on_error: Annotated[
        OnError, typer.Option(help="What to do at a line that cannot get in.")
    ] = OnError.STOP,
    on_full: Annotated[
        OnFull, typer.Option(help="What to do when a queue has no room for more jobs.")
    ] = OnFull.STOP,
    key: Annotated[
        str | None,
        typer.Option(
            help="Names the import: under one name no line gets in twice within 24 hours. By"
            " default a file is named by its content, and stdin has no name.",
            show_default=False,
        ),
    ] = None,
    from_line: Annotated[
        int, typer.Option(help="The line to begin at, in a file that was mended.", min=1)
    ] = 1,
) -> None:
    """Put the jobs of a file in, in its order.

    A line is a body of POST /jobs, and may have headers, delay_ms, timeout_ms and deadline_ms too.
    Its payload is base64, or a JSON object or array. An import that was interrupted goes on where
    it was when it is started again with the same file.
    """
    settings = _settings(database_url, schema)
    with _opened(file) as lines:
        named, total = (key, None) if file == "-" else _measure(lines)
        run = Import(settings, lines, key or named, total, on_error, on_full)
        complete = asyncio.run(run.run(from_line))
    if not complete:
        raise typer.Exit(EXIT_FAILED)


def _settings(database_url: str | None, schema: str | None) -> StoreSettings:
    given = {"HEADGATE_DATABASE_URL": database_url, "HEADGATE_SCHEMA": schema}
    present = {name: value for name, value in given.items() if value}
    return StoreSettings.from_environment({**os.environ, **present})


def _opened(file: str) -> "nullcontext[IO[bytes]] | IO[bytes]":
    if file == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return Path(file).open("rb")
    except OSError as error:
        raise InvalidRequest(f"{file}: {error.strerror}") from None


class Measured(NamedTuple):
    """What a file is called by its content, and its number of lines."""

    key: str | None
    lines: int | None


def _measure(file: IO[bytes]) -> Measured:
    if not file.seekable():
        return Measured(None, None)
    digest = hashlib.sha256()
    count = 0
    block = b""
    while following := file.read(_READ_BYTES):
        block = following
        digest.update(block)
        count += block.count(b"\n")
    file.seek(0)
    return Measured(digest.hexdigest(), count + (bool(block) and not block.endswith(b"\n")))


class Import:
    """One run of the command: what it has done so far, and how it says so."""

    def __init__(
        self,
        settings: StoreSettings,
        file: IO[bytes],
        key: str | None,
        total: int | None,
        on_error: OnError,
        on_full: OnFull,
    ) -> None:
        self._settings = settings
        self._file = file
        self._key = key
        self._skips = on_error is OnError.SKIP
        self._waits = on_full is OnFull.WAIT
        self._progress = Progress("lines", total)
        self._position = 0
        self._enqueued = self._replayed = self._duplicates = self._refused = 0

    async def run(self, from_line: int) -> bool:
        """Imports the file; whether each line of it got in or is there already."""
        started = time.monotonic()
        async with Store(self._settings) as store:
            await store.check_schema()
            if self._key is not None:
                self._position = await store.imports.position(self._key)
            if self._position:
                self._say(f"lines 1 to {self._position} are dealt with already")
            self._position = max(self._position, from_line - 1)
            try:
                whole = await self._put_in(store)
            except HeadgateError as error:
                self._say(str(error))
                whole = False
        if not whole:
            self._say(f"stopped; --from-line {self._position + 1} goes on here with a mended file")
        self._progress.end()
        counts = [f"{self._enqueued} enqueued"]
        for count, name in (
            (self._replayed, "there already"),
            (self._duplicates, "with a unique key that is held"),
            (self._refused, "refused"),
        ):
            if count:
                counts.append(f"{count} {name}")
        seconds = max(time.monotonic() - started, 0.001)
        typer.echo(f"{', '.join(counts)}; {seconds:.1f} s, {self._enqueued / seconds:.0f} jobs/s")
        return whole and not self._refused

    async def _put_in(self, store: Store) -> bool:
        """Whether it came to the end of the file."""
        reading = parts(self._file, after=self._position)
        # The next part is read and judged while the database is busy with this one.
        following = asyncio.ensure_future(asyncio.to_thread(next, reading, None))
        while (part := await following) is not None:
            whole = self._skips or not part.bad
            if whole:
                following = asyncio.ensure_future(asyncio.to_thread(next, reading, None))
            if not await self._put_in_part(store, part):
                return False
            if not whole:
                self._refuse(part.bad[0])
                return False
            for bad in part.bad:
                self._refuse(bad)
        return True

    async def _put_in_part(self, store: Store, part: Part) -> bool:
        """Whether every job of the part is dealt with, up to a bad line where we stop."""
        end = part.bad[0].position if part.bad and not self._skips else sys.maxsize
        jobs = [listed for listed in part.jobs if listed.position < end]
        while jobs:
            imported = await store.imports.put_in(
                jobs, key=self._key, after=self._position, leave_out=self._skips
            )
            self._enqueued += imported.enqueued
            self._replayed += imported.replayed
            self._duplicates += imported.duplicates
            for place, error in imported.refused:
                self._refuse(BadLine(jobs[place].position, str(error)))
            if imported.done:
                self._position = jobs[imported.done - 1].position
            jobs = jobs[imported.done :]
            self._progress.show(self._position)
            if isinstance(imported.stopped, Backpressure) and self._waits:
                await asyncio.sleep(FULL_POLL_S)
            elif imported.stopped is not None:
                self._refuse(BadLine(jobs[0].position, str(imported.stopped)))
                return False
        return True

    def _refuse(self, bad: BadLine) -> None:
        self._refused += 1
        self._say(str(bad))

    def _say(self, line: str) -> None:
        self._progress.end()
        typer.echo(f"headgate: {line}", err=True)
