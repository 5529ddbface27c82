"""Ends a worker that has grown too large, before the system does it in its own way."""

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

_STATM: Final = Path("/proc/self/statm")

logger = logging.getLogger("headgate.worker")


class Sampled(Protocol):
    """Hears of every look at the memory, the last one being that which found too much."""

    def __call__(self, used_bytes: int, *, too_much: bool) -> None: ...


class MemoryGuard:
    """Looks at the memory of the process now and then, until it is too much."""

    def __init__(
        self,
        *,
        limit_bytes: int,
        interval_ms: int,
        sampled: Sampled,
        used_bytes: Callable[[], int] | None = None,
    ) -> None:
        self._limit_bytes = limit_bytes
        self._interval_ms = interval_ms
        self._sampled = sampled
        self._used_bytes = used_bytes or resident_bytes

    async def run(self) -> None:
        """Watches until cancelled, or until the limit is reached; without a limit, not at all."""
        while self._limit_bytes:
            await asyncio.sleep(self._interval_ms / 1000)
            try:
                used = self._used_bytes()
            except OSError as error:
                logger.warning("the memory in use cannot be read: %s", error)
                continue
            too_much = used >= self._limit_bytes
            self._sampled(used, too_much=too_much)
            if too_much:
                logger.warning(
                    "the worker uses %d bytes of at most %d: it ends, to be started anew",
                    used,
                    self._limit_bytes,
                )
                return


def resident_bytes() -> int:
    """What the process occupies now; where the system does not say, the most it ever did."""
    if _STATM.exists():
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
