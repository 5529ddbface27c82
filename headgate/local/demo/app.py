"""The application of the demonstration: one task, a job for each source file."""

import asyncio
from pathlib import Path

import msgspec

from headgate.client.application import Headgate
from headgate.local.demo.facts import RECORD, parameters, read_facts

KIND = "demo:read-source"
QUEUE = "library"

app = Headgate()


class SourceFile(msgspec.Struct, frozen=True):
    """A file below `root`; its package is the first part of its path."""

    root: str
    path: str

    @property
    def package(self) -> str:
        first, _, rest = self.path.partition("/")
        return first if rest else "(modules)"


@app.task(KIND, queue=QUEUE, max_attempts=3)
async def read_source(source: SourceFile) -> None:
    """Parses the file and records what is in it. A file that is not Python fails for good."""
    found = await asyncio.to_thread(read_facts, Path(source.root, source.path))
    await app.store.database.fetch(RECORD, parameters(source.path, source.package, found))


def source_files(root: Path) -> list[SourceFile]:
    """Every source file of the library at `root`, but not what was installed beside it."""
    paths = (path.relative_to(root) for path in root.rglob("*.py"))
    return [
        SourceFile(str(root), path.as_posix())
        for path in sorted(paths)
        if "site-packages" not in path.parts
    ]
