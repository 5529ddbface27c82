"""An embedded PostgreSQL server: created, started, attached to, stopped.

A server lives in a data directory and is found through it by any number of processes. It listens on
127.0.0.1 alone and asks everybody for the password that lies in the directory.

Two locks carry the truth, since the kernel keeps them honest whoever is killed. `running.lock` is
inherited by every process of the server: while it is held, the server lives, whatever pid files
say. `holders.lock` is shared by those who hold the server; `guardian` ends it after the last.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import asyncpg
import msgspec

from headgate.local import guardian
from headgate.local.binaries import find_binaries
from headgate.local.cluster import ENVIRONMENT, ensure_cluster
from headgate.local.connection import blocking, server_identity
from headgate.local.directory import DataDirectory, Postmaster
from headgate.local.errors import LocalServerError
from headgate.local.locks import is_locked, locked, open_lock, try_lock, wait_lock

START_LIMIT_MS = 60_000
STOP_LIMIT_MS = 30_000
POLL_MS = 5

CONNECTION_FAILURES = (
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the server was killed between two messages
)

UNSAFE_BUT_FAST: Mapping[str, str] = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
}
"""Settings for a server whose data may be lost in a power cut, which is what tests want."""


class ServerStatus(msgspec.Struct, frozen=True):
    """A running server: where to connect, what it is, the pid of its first process."""

    dsn: str
    version: str
    pid: int


class LocalServer:
    """The server of one data directory.

    `settings` are PostgreSQL's own, applied when this object is the one that starts the server; who
    attaches takes the server as it is. With `remove_at_end` a server that this object starts takes
    its data directory with it when it ends. Methods block, and may be called from any thread.
    """

    def __init__(
        self,
        data_dir: Path | str,
        *,
        settings: Mapping[str, str] | None = None,
        remove_at_end: bool = False,
    ) -> None:
        self.directory = DataDirectory(data_dir)
        self._settings = dict(settings or {})
        self._remove_at_end = remove_at_end

    def start(self) -> ServerStatus:
        """Start the server, or find it running; either way it stays until `stop`.

        Raises `LocalServerError` with the reason when it does not run in the end.
        """
        with self._held(keep=True) as status:
            return status

    @contextmanager
    def hold(self) -> Iterator[ServerStatus]:
        """The running server, started if need be.

        It ends when nobody holds it any more, be it that the last holder was killed; a server that
        was started by `start` goes on.
        """
        with self._held(keep=False) as status:
            yield status

    @contextmanager
    def reserve(self) -> Iterator[None]:
        """Have the server outlive its other holders, whoever of them starts it and when."""
        with ExitStack() as held:
            with self._starting():
                held.enter_context(self._share())
            yield

    def status(self) -> ServerStatus | None:
        """The running server, checked by connecting to it; None when there is none.

        Raises `LocalServerError` when a process of the server lives and does not answer.
        """
        if not self.directory.exists():
            return None
        try:
            return self._connect()
        except LocalServerError:
            if is_locked(self.directory.running_lock):
                raise
            return None

    def stop(self) -> bool:
        """End the server, rolling back what runs. False when there was none.

        Returns when no process of it is left.
        """
        if not self.directory.exists() or not self.directory.running_lock.exists():
            return False
        with locked(self.directory.start_lock, limit_ms=START_LIMIT_MS):
            self.directory.keep.unlink(missing_ok=True)
            lock = open_lock(self.directory.running_lock)
            try:
                if try_lock(lock):
                    return False
                for how in (signal.SIGINT, signal.SIGQUIT):
                    self._signal(how)
                    if wait_lock(lock, limit_ms=STOP_LIMIT_MS):
                        return True
            finally:
                os.close(lock)
        raise LocalServerError(f"the server of {self.directory.root} does not stop")

    @contextmanager
    def _held(self, *, keep: bool) -> Iterator[ServerStatus]:
        with ExitStack() as held:
            with self._starting():
                held.enter_context(self._share())
                status = self._attach() or self._launch()
                if keep:
                    self.directory.write(self.directory.keep, "")
            yield status

    @contextmanager
    def _starting(self) -> Iterator[None]:
        """Be the only one that creates or starts, with a directory to do it in."""
        try:
            self.directory.create()
            with locked(self.directory.start_lock, limit_ms=START_LIMIT_MS):
                yield
        except OSError as error:
            raise LocalServerError(f"cannot use {self.directory.root}: {error}") from error

    @contextmanager
    def _share(self) -> Iterator[None]:
        """Be one of the holders. A guardian that is ending the server is waited for."""
        holder = open_lock(self.directory.holders_lock)
        try:
            if not wait_lock(holder, limit_ms=STOP_LIMIT_MS, shared=True):
                raise LocalServerError(f"the server of {self.directory.root} does not stop")
            yield
        finally:
            os.close(holder)

    def _attach(self) -> ServerStatus | None:
        """Wait until the server answers; None as soon as no process of it is left."""
        end = time.monotonic() + START_LIMIT_MS / 1000
        while True:
            alive = is_locked(self.directory.running_lock)
            try:
                return self._connect()
            except LocalServerError:
                if not alive:
                    return None
                if time.monotonic() > end:
                    raise
            time.sleep(POLL_MS / 1000)

    def _launch(self) -> ServerStatus:
        """Start the server and wait until it answers. Both locks are held by the caller."""
        directory = self.directory
        directory.keep.unlink(missing_ok=True)
        account = directory.account()
        binaries = find_binaries(account)
        durable = self._settings.get("fsync") != "off"
        ensure_cluster(directory, binaries, account, durable=durable)
        end = time.monotonic() + START_LIMIT_MS / 1000
        while True:
            # No process holds the running lock, so a pid file is what a killed server left.
            (directory.cluster / "postmaster.pid").unlink(missing_ok=True)
            command = [binaries.postgres, "-D", str(directory.cluster)]
            for name, value in self._all_settings(directory.port()).items():
                command += ["-c", f"{name}={value}"]
            mark = directory.log.stat().st_size if directory.log.exists() else 0
            self._spawn_guardian(command, None if account is None else (account.uid, account.gid))
            status = self._attach()
            if status is not None:
                return status
            reason, passing = _failure(directory.log, mark)
            if not passing or time.monotonic() > end:
                raise LocalServerError(f"PostgreSQL did not start: {reason}")
            time.sleep(POLL_MS / 1000)

    def _all_settings(self, port: int) -> dict[str, str]:
        return {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "logging_collector": "off",
            **self._settings,
            "port": str(port),
        }

    def _spawn_guardian(self, command: list[str], account: tuple[int, int] | None) -> None:
        directory = self.directory
        lock = open_lock(directory.running_lock)
        log = os.open(directory.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            if not wait_lock(lock, limit_ms=START_LIMIT_MS):
                raise LocalServerError(f"the server of {directory.root} does not stop")
            order = {
                "command": command,
                "account": account,
                "environment": ENVIRONMENT,
                "running": lock,
                "holders": str(directory.holders_lock),
                "keep": str(directory.keep),
                "remove": str(directory.root) if self._remove_at_end else None,
            }
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", guardian.__file__, json.dumps(order)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                pass_fds=[lock],
                start_new_session=True,
            )
        finally:
            os.close(log)
            os.close(lock)
        # Reaps the guardian, should this process outlive it.
        threading.Thread(target=process.wait, daemon=True).start()
        for path in (directory.log, directory.running_lock, directory.start_lock):
            directory.adopt(path)

    def _connect(self) -> ServerStatus:
        """The status of the server by a real connection; `LocalServerError` without one."""
        root = self.directory.root
        postmaster = self.directory.postmaster()
        if postmaster is None or not postmaster.ready:
            raise LocalServerError(f"the server of {root} is not ready; see {self.directory.log}")
        dsn = self.directory.dsn(postmaster.port)
        try:
            version, cluster = blocking(server_identity(dsn))
        except CONNECTION_FAILURES as error:
            raise LocalServerError(f"the server of {root} does not answer: {error}") from error
        if not self._is_ours(cluster):
            raise LocalServerError(f"port {postmaster.port} serves {cluster}, not {root}")
        return ServerStatus(dsn=dsn, version=version, pid=postmaster.pid)

    def _is_ours(self, cluster: str) -> bool:
        """A copied data directory has the password and the pid file of another server."""
        try:
            return self.directory.cluster.samefile(cluster)
        except OSError:
            return False

    def _signal(self, how: signal.Signals) -> None:
        postmaster = self.directory.postmaster()
        if postmaster is None or not _is_at(postmaster, self.directory.cluster):
            return
        try:
            os.kill(postmaster.pid, how)
        except ProcessLookupError:
            return
        except PermissionError:
            raise LocalServerError(
                f"the server of {self.directory.root} belongs to another user"
            ) from None


def _is_at(postmaster: Postmaster, cluster: Path) -> bool:
    """Whether the pid is still the server's, where Linux can tell: it works in its cluster."""
    try:
        return Path(f"/proc/{postmaster.pid}/cwd").samefile(cluster)
    except OSError:
        return sys.platform != "linux"


def _failure(log: Path, mark: int) -> tuple[str, bool]:
    """Why the server ended, from its log past `mark`, and whether another try may do better."""
    with log.open("rb") as file:
        file.seek(mark)
        lines = file.read().decode(errors="replace").strip().splitlines()
    text = "\n".join(lines)
    passing = "Address already in use" in text or "pre-existing shared memory" in text
    fatal = [line for line in lines if "FATAL" in line]
    return (fatal or lines or ["no reason in its log"])[-1], passing
