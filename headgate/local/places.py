"""Directories that suit a server: one to stay, one to leave nothing behind."""

import hashlib
import os
import tempfile
from pathlib import Path

from headgate.local.account import closed_to, service_account
from headgate.local.directory import ROOT_HOME
from headgate.local.errors import LocalServerError


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


def temporary_directory(prefix: str = "headgate-") -> Path:
    """A new directory of the caller's, where the server can enter."""
    for place in (tempfile.gettempdir(), "/tmp", "/var/tmp"):
        try:
            path = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
        except OSError:
            continue
        account = service_account(path, path / "cluster")
        if account is None or closed_to(account, path.parent) is None:
            return path
        path.rmdir()
    raise LocalServerError("no temporary directory that the server could enter")
