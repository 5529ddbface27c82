"""File locks that the kernel gives back by itself when their last holder dies."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headgate.local.errors import LocalServerError

POLL_MS = 10


def open_lock(path: Path) -> int:
    """A descriptor to lock `path` by; the file is created for its owner alone."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except PermissionError:
        raise LocalServerError(f"{path.parent} belongs to another user") from None
    except OSError as error:
        raise LocalServerError(f"cannot open {path}: {error.strerror}") from error


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Take the lock unless somebody is in the way. A shared lock goes with other shared ones."""
    mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_lock(descriptor: int, *, limit_ms: int, shared: bool = False) -> bool:
    """Like `try_lock`, for up to `limit_ms`."""
    end = time.monotonic() + limit_ms / 1000
    while not try_lock(descriptor, shared=shared):
        if time.monotonic() >= end:
            return False
        time.sleep(POLL_MS / 1000)
    return True


@contextmanager
def locked(path: Path, *, limit_ms: int) -> Iterator[None]:
    """Hold `path` alone; `LocalServerError` when others keep it for longer than `limit_ms`."""
    descriptor = open_lock(path)
    try:
        if not wait_lock(descriptor, limit_ms=limit_ms):
            raise LocalServerError(f"another process has held {path} for {limit_ms} ms")
        yield
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether somebody holds `path` at this moment."""
    if not path.exists():
        return False
    descriptor = open_lock(path)
    try:
        return not try_lock(descriptor, shared=True)
    finally:
        os.close(descriptor)
