"""A walk through local files that goes on where it stopped, whatever stopped it.

The cursor is the last file that was read; it is written down after each. A file is read at least
once, and after a crash at most one of them twice.
"""

import asyncio
import hashlib
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import msgspec

from headgate import Headgate, JobContext

app = Headgate(name="crawler")


class Crawl(msgspec.Struct):
    directory: str


class Findings(msgspec.Struct):
    """What was found so far; kept beside the cursor, so that it is never ahead of it."""

    last: str = ""
    files: int = 0
    bytes: int = 0
    digest: str = ""


@app.task("crawl", queue="crawls", retention=timedelta(days=1))
async def crawl(ctx: JobContext, asked: Crawl) -> Findings:
    await ctx.step("look", look, ctx, asked.directory)
    findings = Findings()

    async def read_all(cursor: Findings | None) -> None:
        nonlocal findings
        findings = cursor or findings
        paths = list(files_of(asked.directory))
        for position, path in enumerate(paths):
            if str(path) <= findings.last:
                continue
            content = await asyncio.to_thread(path.read_bytes)
            seen = hashlib.sha256(findings.digest.encode() + content).hexdigest()
            findings = Findings(str(path), findings.files + 1, findings.bytes + len(content), seen)
            await ctx.set_cursor(findings)
            await ctx.progress(position + 1, len(paths), path.name[:100])

    await ctx.cursor_step("read", read_all, type=Findings)
    return findings


def look(ctx: JobContext, directory: str) -> None:
    if not Path(directory).is_dir():
        raise NotADirectoryError(directory)
    ctx.log(f"{sum(1 for _ in files_of(directory))} files")


def files_of(directory: str) -> Iterator[Path]:
    """The files below the directory, in the order of their paths."""
    yield from sorted(path for path in Path(directory).rglob("*") if path.is_file())


async def main(directory: str) -> None:
    async with app:
        enqueued = await crawl.enqueue(Crawl(directory))
        print(enqueued.id)


if __name__ == "__main__":
    asyncio.run(main(str(Path(sys.argv[1]).resolve())))
