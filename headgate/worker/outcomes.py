"""How a handler ends its attempt otherwise than by returning or failing.

Each of these is raised, from any depth, or returned. They are no `Exception`s, so that a broad
`except Exception` in a handler does not swallow them.
"""

from datetime import timedelta
from typing import Final

from headgate.client.durations import duration_ms

RATE_LIMITED_DELAY_MS: Final = 1_000
"""How long a job stays away that was refused elsewhere: never at once, or it would spin."""


class ControlFlow(BaseException):
    """The root of what ends an attempt on purpose."""


class Snooze(ControlFlow):
    """Run this job again later. It costs no attempt."""

    def __init__(self, delay: timedelta | None = None, *, delay_ms: int | None = None) -> None:
        """Raises `InvalidRequest` for a delay below one millisecond."""
        chosen = duration_ms("snooze delay", delay, delay_ms)
        if chosen is None:
            raise TypeError("Snooze needs a delay")
        self.delay_ms = chosen
        super().__init__(f"snoozed for {chosen} ms")


class Retry(ControlFlow):
    """This attempt failed; try again, after `after` instead of the usual backoff when given.

    It costs an attempt like any failure, and the last attempt archives the job.
    """

    def __init__(
        self,
        reason: str = "retry requested",
        *,
        after: timedelta | None = None,
        after_ms: int | None = None,
    ) -> None:
        """Raises `InvalidRequest` for a delay below one millisecond."""
        self.reason = reason
        self.delay_ms = duration_ms("after", after, after_ms)
        super().__init__(reason)


class Skip(ControlFlow):
    """Give this job up for good: it is archived, with the reason."""

    def __init__(self, reason: str = "skipped") -> None:
        self.reason = reason
        super().__init__(reason)


class Revoke(ControlFlow):
    """This job should never have been: it is deleted."""


class RateLimited(ControlFlow):
    """Somebody else had no room for this job now; it returns after `after`, one second by default.

    It costs no attempt and leaves no trace in the job's history.
    """

    def __init__(self, *, after: timedelta | None = None, after_ms: int | None = None) -> None:
        """Raises `InvalidRequest` for a delay below one millisecond."""
        self.delay_ms = duration_ms("after", after, after_ms) or RATE_LIMITED_DELAY_MS
        super().__init__(f"rate limited for {self.delay_ms} ms")


class LeaseLost(ControlFlow):
    """The job is no longer this worker's. Nothing this attempt reports will count."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"lease of job {job_id} is lost")
        self.job_id = job_id


class StaleCheckpoint(ControlFlow):
    """An attempt before this one did other steps than the handler has now: it cannot go on there.

    The job becomes undecodable. Beginning anew could do twice what was done before.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"checkpoint is stale: {reason}")
