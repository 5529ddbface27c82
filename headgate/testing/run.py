"""What the processes of one test run share: a directory, the server in it, the template."""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from headgate.local import UNSAFE_BUT_FAST, LocalServer, temporary_directory
from headgate.testing.clones import Clones, migrated_template

ENVIRONMENT_DSN = "HEADGATE_TEST_DATABASE_URL"
SETTINGS = {**UNSAFE_BUT_FAST, "max_connections": "200", "max_wal_size": "128MB"}


class DatabaseRun:
    """One test run: the embedded server, unless the environment names another.

    The embedded server needs no goodbye: it ends, and its files with it, when the last process of
    the run is gone, also when that was killed.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.external_dsn = os.environ.get(ENVIRONMENT_DSN)
        self._server = LocalServer(directory, settings=SETTINGS, remove_at_end=True)

    @contextmanager
    def server(self) -> Iterator[str]:
        """The DSN of the server, which runs at least as long as this context."""
        if self.external_dsn:
            yield self.external_dsn
        else:
            with self._server.hold() as status:
                yield status.dsn

    def template(self, dsn: str) -> str:
        """The name of the migrated template."""
        return migrated_template(dsn, self.directory)

    def clones(self, dsn: str) -> Clones:
        """A maker of databases. Copying files is the faster way where nothing is synced."""
        return Clones(dsn, strategy=None if self.external_dsn else "file_copy")

    @classmethod
    @contextmanager
    def opened(cls) -> Iterator["DatabaseRun"]:
        """A new run, for the process that outlives the others; nothing is left after it."""
        directory = temporary_directory("headgate-test-", in_memory=True)
        run = cls(directory)
        try:
            with ExitStack() as held:
                if not run.external_dsn:
                    held.enter_context(run._server.reserve())
                try:
                    yield run
                finally:
                    run._finish()
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def _finish(self) -> None:
        mark = self.directory / "template"
        if not self.external_dsn:
            self._server.stop()
        elif mark.exists():
            clones = Clones(self.external_dsn)
            clones.drop(mark.read_text())
            clones.close()
