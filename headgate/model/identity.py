"""What tells jobs apart: generated ids, fingerprints of content, unique keys in their scope."""

import os
import random
import threading
import time
from functools import lru_cache
from hashlib import sha256
from typing import Final

_RANDOM_BITS: Final = 36
_STEP_BITS: Final = 16


class _IdSource:
    """The last id handed out, as milliseconds and a random number that only grows within them.

    The milliseconds are the process's own clock. They order the ids of one process and are read
    by nothing: no deadline, lease or schedule depends on them.
    """

    def __init__(self) -> None:
        self._milliseconds = 0
        self.start_anew()

    def start_anew(self) -> None:
        """In a forked child: its parent goes on with the old numbers, and may hold the old lock."""
        self._lock = threading.Lock()
        self._random = random.Random()
        self._next_millisecond()

    def take(self, count: int) -> list[str]:
        with self._lock:
            now = time.time_ns() // 1_000_000
            if now > self._milliseconds:
                self._milliseconds = now
                self._number = self._random.getrandbits(_RANDOM_BITS)
            # A step of random size keeps two processes that drew neighbouring numbers from walking
            # in each other's footsteps.
            # However many are taken, they fit into a millisecond.
            widest = min(1 << _STEP_BITS, (1 << _RANDOM_BITS) // (2 * max(count, 1)))
            step = self._random.randrange(widest) + 1
            while (self._number + step * count) >> _RANDOM_BITS:
                self._next_millisecond()
            first, self._number = self._number + step, self._number + step * count
            prefix = f"hg{self._milliseconds:012x}"
            return [f"{prefix}{number:09x}" for number in range(first, self._number + 1, step)]

    def _next_millisecond(self) -> None:
        self._milliseconds += 1
        self._number = self._random.getrandbits(_RANDOM_BITS)


_source = _IdSource()
os.register_at_fork(after_in_child=_source.start_anew)


def new_job_ids(count: int) -> list[str]:
    """Several ids of new jobs, each greater than the one before it; see `new_job_id`."""
    return _source.take(count)


def new_job_id() -> str:
    """An id of `hg` and 21 lowercase hex digits: 12 of milliseconds and 9 random ones.

    Greater than every id this process made before, also from another thread, within one millisecond
    and when its clock steps back. Ids of different processes may collide, if hardly ever: the
    producer then takes another one.
    """
    return _source.take(1)[0]


@lru_cache(maxsize=1024)
def _kind_prefix(kind: str) -> bytes:
    encoded = kind.encode()
    return len(encoded).to_bytes(4, "little") + encoded


def fingerprint(kind: str, payload: bytes) -> str:
    """Identical content, identical fingerprint: the unit that a quarantine holds back.

    The first 16 bytes of the SHA-256 over kind and payload, each after its length in 4 bytes,
    least significant first; as lowercase hex.
    """
    sized = _kind_prefix(kind) + len(payload).to_bytes(4, "little")
    return sha256(sized + payload).hexdigest()[:32]


@lru_cache(maxsize=1024)
def _key_scope(kind: str) -> bytes:
    encoded = kind.encode()
    return b"\x01K" + len(encoded).to_bytes(4, "big") + encoded


def effective_unique_key(kind: str, key: bytes | None, exclude_kind: bool) -> bytes | None:
    """The key as it is stored, with its scope before it: the kind, or all kinds together.

    None stays None: no key. An empty key is a key like any other.
    """
    if key is None:
        return None
    return b"\x01G" + key if exclude_kind else _key_scope(kind) + key
