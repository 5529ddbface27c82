"""Queues as operators see them. Rates are jobs per second, ages and durations milliseconds."""

import msgspec


class QuietGroups(msgspec.Struct, kw_only=True, frozen=True):
    """A queue without its noisy partitions: how everybody else is served.

    `approximate` says that the queue has more partitions than were looked at.
    """

    arrival_rate: float
    drain_rate: float
    time_to_drain_ms: int | None
    oldest_available_ms: int | None
    noisy_partitions: int
    approximate: bool


class QueueBacklog(msgspec.Struct, kw_only=True, frozen=True):
    """How much work a queue has now, and whether it gets less.

    `by_state` has the states that occur; `unfinished_jobs` are the live ones among them, by the
    same count. `count_is_approximate` says that too much was yet to be folded into the counts to
    read all of it.
    """

    queue: str
    unfinished_jobs: int
    by_state: dict[str, int]
    arrival_rate: float
    drain_rate: float
    time_to_drain_ms: int | None
    paused: bool
    count_is_approximate: bool


class QueueStatistics(QueueBacklog, kw_only=True, frozen=True):
    """How a queue stands now.

    `oldest_available_ms` is the age of what has waited longest. `memory_bytes` is what the last
    sample of its newest jobs weighed.
    """

    weight: int
    max_unfinished_jobs: int | None
    oldest_available_ms: int | None
    memory_bytes: int | None
    quiet_groups: QuietGroups


class StateCounts(msgspec.Struct, frozen=True):
    """How many jobs there are in each state that occurs."""

    counts: dict[str, int]
    approximate: bool


class HistoryBucket(msgspec.Struct, frozen=True):
    """What arrived and was completed in the time from `at_ms` on."""

    at_ms: int
    arrived: int
    completed: int


class BlockReasons(msgspec.Struct, kw_only=True, frozen=True):
    """Waiting jobs by the first reason that holds them, in the order in which they are asked."""

    queue_paused: int = 0
    schedule: int = 0
    quarantine: int = 0
    rate_class: int = 0
    concurrency_limit: int = 0
    sticky_worker: int = 0


class BlockedJobs(msgspec.Struct, kw_only=True, frozen=True):
    """Why what waits in a queue does not run. What no reason holds is next to run.

    `waiting` are the scheduled, retryable and available jobs. With `approximate` only the oldest
    available ones were asked for their reason.
    """

    queue: str
    waiting: int
    reasons: BlockReasons
    live_workers: int
    approximate: bool


class Partition(msgspec.Struct, frozen=True):
    """A partition with available jobs. Turns are taken without a debt, so `deficit` is always 0."""

    partition_key: str
    deficit: int
    waiting: int
