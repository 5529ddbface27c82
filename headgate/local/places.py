"""Directories that suit a server: one to stay, one to leave nothing behind."""

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from headgate.local.account import closed_to, service_account
from headgate.local.directory import ROOT_HOME
from headgate.local.errors import LocalServerError

SHARED_MEMORY = "/dev/shm"
ROOM = 2 << 30
"""Free bytes. A test run takes about a fifth of it; a container's default of 64 MiB is no room."""


def reachable_directory(preferred: Path | str) -> Path:
    """`preferred`, or a directory of `ROOT_HOME` in its stead that the server of root can enter."""
    path = Path(os.path.abspath(preferred))
    account = service_account(path, path / "cluster")
    if account is None:
        return path
    existing = next(step for step in path.parents if step.exists())
    if closed_to(account, existing) is None:
        return path
    return ROOT_HOME / hashlib.sha256(str(path).encode()).hexdigest()[:12]


def temporary_directory(prefix: str = "headgate-", *, in_memory: bool = False) -> Path:
    """A new directory of the caller's, where the server can enter.

    With `in_memory` it lies in memory where the machine has plenty: creating and dropping databases
    is mostly creating and dropping files, and that is ten times as fast there as on a disk.
    """
    places = [tempfile.gettempdir(), "/tmp", "/var/tmp"]
    if in_memory and _has_room(SHARED_MEMORY):
        places.insert(0, SHARED_MEMORY)
    for place in places:
        try:
            path = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
        except OSError:
            continue
        account = service_account(path, path / "cluster")
        if account is None or closed_to(account, path.parent) is None:
            return path
        path.rmdir()
    raise LocalServerError("no temporary directory that the server could enter")


def _has_room(place: str) -> bool:
    try:
        return shutil.disk_usage(place).free >= ROOM
    except OSError:
        return False
