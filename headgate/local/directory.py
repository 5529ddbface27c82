"""What lies in the data directory of a local server.

`cluster/` is PostgreSQL's own and belongs to the account that runs it. Everything else belongs to
whoever made the data directory and is readable by its owner alone: the password above all.
"""

import os
import secrets
import socket
from pathlib import Path

import msgspec

from headgate.local.account import Account, closed_to, service_account
from headgate.local.errors import LocalServerError

ROOT_HOME = Path("/var/lib/headgate")


class DataDirectory:
    """The paths below `root` and the small files among them."""

    def __init__(self, root: Path | str) -> None:
        self.root = Path(os.path.abspath(root))
        self.cluster = self.root / "cluster"
        self.log = self.root / "postgres.log"
        self.start_lock = self.root / "start.lock"
        self.running_lock = self.root / "running.lock"
        self.holders_lock = self.root / "holders.lock"
        self.keep = self.root / "keep"
        self._password = self.root / "password"
        self._port = self.root / "port"

    def account(self) -> Account | None:
        """Who runs the server; None means the caller."""
        return service_account(self.root, self.cluster)

    def exists(self) -> bool:
        """Whether the directory is there. Raises `LocalServerError` when it is not the caller's."""
        try:
            owner = self.root.stat().st_uid
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise LocalServerError(f"cannot look into {self.root}: {error.strerror}") from error
        if os.geteuid() not in (0, owner):
            raise LocalServerError(f"{self.root} belongs to another user")
        return True

    def create(self) -> None:
        """Make the directory, with what is missing above it, for the caller and its server.

        Raises `LocalServerError` when the server's account could not enter it, and for a directory
        that holds something else.
        """
        account = self.account()
        if account is not None:
            existing = next(path for path in self.root.parents if path.exists())
            if (closed := closed_to(account, existing)) is not None:
                raise LocalServerError(
                    f"the server of root runs as {account.name}, who cannot enter {closed}: choose"
                    f" a data directory elsewhere, for example below {ROOT_HOME}"
                )
        mode = 0o700 if account is None else 0o711
        for path in (*reversed(self.root.parents), self.root):
            if not path.exists():
                path.mkdir(exist_ok=True)
                path.chmod(mode)
        if not self.exists() or (not self._is_empty() and not self.start_lock.exists()):
            raise LocalServerError(f"{self.root} holds something else than a local server")
        if account is not None and closed_to(account, self.root) is not None:
            self.root.chmod(mode)

    def _is_empty(self) -> bool:
        return next(self.root.iterdir(), None) is None

    def write(self, path: Path, text: str) -> None:
        """Put `text` into `path` for the owner of the directory alone, all of it or nothing."""
        draft = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        self.adopt(draft)
        draft.rename(path)

    def adopt(self, path: Path) -> None:
        """Give a file that root made in a directory of somebody else to that somebody."""
        if os.geteuid() == 0:
            owner = self.root.stat()
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)

    def password(self) -> str:
        """The password of the server's superuser; generated when there is none yet."""
        if not self._password.exists():
            self.write(self._password, secrets.token_urlsafe(24))
        try:
            return self._password.read_text().strip()
        except PermissionError:
            raise LocalServerError(f"{self.root} belongs to another user") from None

    def port(self) -> int:
        """The TCP port of last time when it is free, so that a DSN stays true; else a free one."""
        try:
            remembered = int(self._port.read_text())
        except (OSError, ValueError):
            remembered = 0
        for wanted in (remembered, 0):
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(("127.0.0.1", wanted))
                except OSError:
                    continue
                chosen: int = probe.getsockname()[1]
            if chosen != remembered:
                self.write(self._port, str(chosen))
            return chosen
        raise LocalServerError("no free TCP port on 127.0.0.1")

    def dsn(self, port: int, database: str = "postgres") -> str:
        """A URL that asyncpg, psycopg and SQLAlchemy all take."""
        return f"postgresql://postgres:{self.password()}@127.0.0.1:{port}/{database}"

    def postmaster(self) -> "Postmaster | None":
        """What the server says of itself in its pid file; None when there is no such file."""
        try:
            lines = (self.cluster / "postmaster.pid").read_text().splitlines()
            return Postmaster(
                pid=int(lines[0]), port=int(lines[3]), ready=lines[7].strip() == "ready"
            )
        except (OSError, ValueError, IndexError):
            return None

    def cluster_major(self) -> int | None:
        """The major version that the cluster was made with; None when there is no cluster."""
        try:
            return int((self.cluster / "PG_VERSION").read_text())
        except (OSError, ValueError):
            return None


class Postmaster(msgspec.Struct, frozen=True):
    """The lines of `postmaster.pid` that matter. The file outlives a killed server."""

    pid: int
    port: int
    ready: bool
