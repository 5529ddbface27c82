"""The account that the server runs under.

PostgreSQL refuses to run as root. A root caller therefore needs an account that exists already:
none is created, and no directory that was there before has its mode changed to suit it.
"""

import os
import pwd
from pathlib import Path

import msgspec

from headgate.local.errors import LocalServerError

CANDIDATES = ("nobody", "postgres")
"""`postgres` comes last: it may own a cluster of the system, which is none of our business."""


class Account(msgspec.Struct, frozen=True):
    """An unprivileged account; initdb insists that its uid has a name."""

    name: str
    uid: int
    gid: int

    def owns(self, path: Path) -> None:
        """Give `path` to this account."""
        os.chown(path, self.uid, self.gid)


def service_account(data_dir: Path, cluster: Path) -> Account | None:
    """Who is to run the server of `data_dir`; None means the caller as it is.

    For root: the owner of the cluster, or else of the data directory, or else the first
    of `CANDIDATES` that exists.
    """
    if os.geteuid() != 0:
        return None
    for path in (cluster, data_dir):
        if path.exists() and path.stat().st_uid != 0:
            return _account_of(path)
    for name in CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
    raise LocalServerError(
        f"PostgreSQL does not run as root, and there is no user {' or '.join(CANDIDATES)} for it"
    )


def closed_to(account: Account, path: Path) -> Path | None:
    """The outermost directory on the way to `path`, itself included, that `account` cannot enter.

    Judged by the permission bits; access control lists are not read.
    """
    for step in (*reversed(path.parents), path):
        found = step.stat()
        if found.st_uid == account.uid:
            allowed = found.st_mode & 0o100
        elif found.st_gid == account.gid:
            allowed = found.st_mode & 0o010
        else:
            allowed = found.st_mode & 0o001
        if not allowed:
            return step
    return None


def _account_of(path: Path) -> Account:
    uid = path.stat().st_uid
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        raise LocalServerError(
            f"{path} belongs to uid {uid}, which has no name on this machine"
        ) from None
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
