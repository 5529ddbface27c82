"""Rate classes and concurrency limits: their fields, their bounds, the wording of refusals."""

from enum import StrEnum
from typing import Final

import msgspec

from headgate.model.errors import InvalidRequest
from headgate.model.limits import MAX_MS, check_name

MAX_INT64: Final = 2**63 - 1
MAX_LIMIT: Final = 2**61
MAX_SCALED: Final = 2**62
"""What a full bucket may hold in tokens times milliseconds. With the bound of the limit, no sum or
product of the refill leaves 64 bits."""


class RateClass(msgspec.Struct, kw_only=True, frozen=True):
    """A rate class as it stands now. A paused one reads as limit 0 and tokens 0.

    `jobs_waiting` is exact below 1,000, which means at least as many.
    """

    name: str
    tokens_available: int
    burst: int
    limit_per_window: int
    window_ms: int
    jobs_waiting: int
    paused: bool


class RateClassPolicy(msgspec.Struct, kw_only=True, frozen=True):
    """What an operator says of a rate class: `limit` tokens per window, at most `burst` saved up.

    Without a burst, that of one window.
    """

    limit: int
    window_ms: int
    burst: int | None = None
    paused: bool = False

    @property
    def effective_burst(self) -> int:
        return max(self.limit, 1) if self.burst is None else self.burst

    @property
    def stopped(self) -> bool:
        """Nothing passes. A limit of 0 reads as a pause and is one."""
        return self.paused or self.limit == 0

    def check(self) -> None:
        """Refuse what can never work, or could overflow later. Raises `InvalidRequest`."""
        if self.window_ms < 1:
            raise InvalidRequest("window_ms must be >= 1")
        if self.limit < 0 or self.effective_burst < 1:
            raise InvalidRequest("limit must be >= 0 and burst >= 1")
        if self.window_ms > MAX_MS:
            raise InvalidRequest("window_ms is too large")
        if self.limit > MAX_LIMIT:
            raise InvalidRequest("limit is too large")
        if self.effective_burst * self.window_ms > MAX_SCALED:
            raise InvalidRequest("burst is too large")

    def holding(self, scaled_level: int, window_ms: int, *, stopped: bool) -> tuple[int, int]:
        """The tokens and the remainder that a class keeps when its terms change to these.

        `scaled_level` is what it held under the old window, in units of token times millisecond: so
        what came in is credited, down to the part of a token. What the new burst cannot hold is
        lost. A class that is stopped, or was until now, keeps nothing but its debt.
        """
        tokens, part = divmod(scaled_level, window_ms)
        if stopped or self.stopped:
            return min(0, tokens), 0
        if tokens >= self.effective_burst:
            return self.effective_burst, 0
        return tokens, part * self.window_ms // window_ms


class Saturation(StrEnum):
    """What happens to a job whose partition runs as many as it may."""

    QUEUE = "queue"
    DISCARD = "discard"
    CANCEL_RUNNING = "cancel_running"
    CANCEL_INCOMING = "cancel_incoming"


class ConcurrencyLimit(msgspec.Struct, kw_only=True, frozen=True):
    """A ceiling on the running jobs of each partition of a queue; a queue has one at most."""

    name: str
    queue: str
    max_concurrent: int
    on_saturated: str

    def check(self) -> None:
        """Refuse what cannot be. Raises `InvalidRequest`, for the first of several faults."""
        if not self.name or not self.queue:
            raise InvalidRequest("name and queue must not be empty")
        if self.max_concurrent < 1:
            raise InvalidRequest("max_concurrent must be >= 1")
        if self.on_saturated not in {each.value for each in Saturation}:
            raise InvalidRequest(f"unknown saturation strategy `{self.on_saturated}`")
        if self.max_concurrent > MAX_INT64:
            raise InvalidRequest("max_concurrent is too large")
        check_name("name", self.name)
        check_name("queue", self.queue)
