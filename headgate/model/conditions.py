"""What the transition table asks about a job, and what an edge does to its counters, as data."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

import msgspec


class Facts(msgspec.Struct, kw_only=True, frozen=True):
    """What the table asks about a job before the event touches it.

    `later` is true when the enqueue names a due time after the database's now, or debounces.
    `throttle_key_held` is true while the job holds a throttle key whose window is still open.
    """

    pending: bool = False
    later: bool = False
    retention_ms: int = 0
    throttle_key_held: bool = False
    delay_ms: int = 0
    attempt: int = 0
    max_attempts: int = 25
    crash_attempt: int = 0
    crash_limit: int = 3


class Condition(StrEnum):
    """What decides between the edges of one event out of one state."""

    ALWAYS = "always"
    HELD_BACK = "held back"
    DUE_LATER = "due later"
    DUE_NOW = "due now"
    AT_ONCE = "at once"
    DELAYED = "delayed"
    KEPT = "kept"
    NOT_KEPT = "not kept"
    ATTEMPTS_LEFT = "attempts left"
    ATTEMPTS_SPENT = "attempts spent"
    CRASHES_TOLERATED = "crashes tolerated"
    CRASH_LIMIT_REACHED = "crash limit reached"

    @property
    def rule(self) -> str:
        """The exact rule, in the names of `Facts`."""
        return _RULES[self][0]

    def holds(self, facts: Facts) -> bool:
        return _RULES[self][1](facts)


_RULES: Final[Mapping[Condition, tuple[str, Callable[[Facts], bool]]]] = {
    Condition.ALWAYS: ("", lambda facts: True),
    Condition.HELD_BACK: ("pending", lambda facts: facts.pending),
    Condition.DUE_LATER: (
        "not pending, and scheduled_at_ms > now or unique_debounce_ms > 0",
        lambda facts: not facts.pending and facts.later,
    ),
    Condition.DUE_NOW: (
        "not pending, and scheduled_at_ms <= now and unique_debounce_ms = 0",
        lambda facts: not facts.pending and not facts.later,
    ),
    Condition.AT_ONCE: ("no delay_ms", lambda facts: facts.delay_ms <= 0),
    Condition.DELAYED: ("delay_ms > 0", lambda facts: facts.delay_ms > 0),
    Condition.KEPT: (
        "retention_ms > 0, or the window of its throttle key is open",
        lambda facts: facts.retention_ms > 0 or facts.throttle_key_held,
    ),
    Condition.NOT_KEPT: (
        "retention_ms = 0, and the window of its throttle key is over or was none",
        lambda facts: facts.retention_ms <= 0 and not facts.throttle_key_held,
    ),
    Condition.ATTEMPTS_LEFT: (
        "attempt + 1 < max_attempts",
        lambda facts: facts.attempt + 1 < facts.max_attempts,
    ),
    Condition.ATTEMPTS_SPENT: (
        "attempt + 1 >= max_attempts",
        lambda facts: facts.attempt + 1 >= facts.max_attempts,
    ),
    Condition.CRASHES_TOLERATED: (
        "crash_attempt + 1 < crash_limit",
        lambda facts: facts.crash_attempt + 1 < facts.crash_limit,
    ),
    Condition.CRASH_LIMIT_REACHED: (
        "crash_attempt + 1 >= crash_limit",
        lambda facts: facts.crash_attempt + 1 >= facts.crash_limit,
    ),
}


class Effect(StrEnum):
    """What an edge does to the counters of the row. An edge that lists none moves none."""

    FENCE = "fence + 1"
    ATTEMPT = "attempt + 1"
    CRASH_ATTEMPT = "crash_attempt + 1"
    CRASHES_FORGIVEN = "crash_attempt = 0"
