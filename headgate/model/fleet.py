"""The workers of an installation as operators see them."""

from typing import Final

import msgspec

COMMANDS: Final = ("quiet", "resume", "restart", "terminate", "resign")
"""What a worker can be told to do."""


class WorkerView(msgspec.Struct, kw_only=True, frozen=True):
    """What a live worker said of itself last. `pending_command` waits for its next heartbeat."""

    worker_id: str
    host: str
    pid: int
    queues: list[str]
    concurrency: int
    started_at_ms: int
    heartbeat_at_ms: int
    inflight: int
    polls: int
    empty_polls: int
    utilization: float
    empty_poll_ratio: float
    status: str
    duties_active: bool
    pending_command: str | None


class WorkerCounts(msgspec.Struct, kw_only=True, frozen=True):
    live: int
    stale: int
    total: int


class QueueCoverage(msgspec.Struct, frozen=True):
    """How many live workers take jobs of a queue."""

    queue: str
    live_workers: int


class Cluster(msgspec.Struct, kw_only=True, frozen=True):
    """The live workers together: sums, and ratios of sums. Queues without a worker are listed."""

    workers: WorkerCounts
    capacity_total: int
    inflight_total: int
    utilization: float
    empty_poll_ratio: float
    polls_total: int
    empty_polls_total: int
    queues: list[QueueCoverage]


class DutyState(msgspec.Struct, kw_only=True, frozen=True):
    """Who has a background duty, and until when; both null while nobody has it.

    `last_success_ms` is when nothing was left for it to do, null if that never was, and `lag_ms`
    how much longer ago that is than its interval. `rows_handled` counts since the first run.
    """

    name: str
    holder: str | None
    expires_at_ms: int | None
    last_success_ms: int | None
    lag_ms: int | None
    rows_handled: int
