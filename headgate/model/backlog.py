"""Numbers that operators steer by, from counts that the store keeps. No clock, no store."""

import math
from collections.abc import Sequence

from headgate.model.limits import MAX_MS


def noisy_partition_keys(loads: Sequence[tuple[str, int]]) -> list[str]:
    """The partitions that hold more than twice what their peers hold on average, in their order.

    `loads` are the running jobs of every known partition of one queue, idle ones included: they
    lower the mean. One running job is never noise, and a lone partition has no peers. A negative
    count is taken as 0. All integers, so that the bound is exact.
    """
    counts = [max(0, count) for _, count in loads]
    total = sum(counts)
    peers = len(counts) - 1
    if peers < 1:
        return []
    return [
        key
        for (key, _), count in zip(loads, counts, strict=True)
        if count >= 2 and count * peers > 2 * (total - count)
    ]


def time_to_drain_ms(backlog: int, arrival_rate: float, drain_rate: float) -> int | None:
    """How long until the backlog is gone at these rates, in jobs per second.

    None when it does not shrink: that is the alert. None too when it shrinks so slowly that the end
    lies past the year 9999.
    """
    if drain_rate <= 0 or drain_rate <= arrival_rate:
        return None
    milliseconds = backlog / (drain_rate - arrival_rate) * 1000
    if not math.isfinite(milliseconds) or milliseconds > MAX_MS:
        return None
    return int(milliseconds)


def utilization(inflight: int, capacity: int) -> float:
    """The share of the slots that are in use; 0 without slots.

    For a fleet give the sums: the ratio of sums weighs a large worker more, as it should.
    """
    return inflight / capacity if capacity > 0 else 0.0


def empty_poll_ratio(empty_polls: int, polls: int) -> float:
    """The share of the admissions that came back with nothing; 0 before the first one."""
    return empty_polls / polls if polls > 0 else 0.0


def age_ms(now_ms: int, at_ms: int) -> int:
    """How long ago `at_ms` was; 0 for an instant that is yet to come."""
    return max(0, now_ms - at_ms)
