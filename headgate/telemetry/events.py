"""The events: what happened, in numbers and names that are few.

None carries a payload, a partition or the text of an error. More events may come: whoever reads
them passes over those it does not know.
"""

from typing import TypeAlias

import msgspec


class Admitted(msgspec.Struct, frozen=True, tag=True):
    """An admission gave this worker `count` jobs of a queue."""

    queue: str
    count: int


class Rejected(msgspec.Struct, frozen=True, tag=True):
    """Handlers gave back `count` jobs of a queue for want of room elsewhere, as `policy` says.

    What the gate itself holds back was never handed out, and is not among these.
    """

    queue: str
    policy: str
    count: int


class Completed(msgspec.Struct, frozen=True, tag=True):
    """A job of this kind succeeded after `ms`, and the store has confirmed it."""

    kind: str
    ms: int


class JobSpan(msgspec.Struct, frozen=True, tag=True):
    """One attempt, once the store has answered its report.

    `outcome` is that of the report, or `lease_lost` when it did not count. `started_at_ms` is on
    the clock of the database, `ms` how long the attempt ran. `trace` is the W3C `traceparent` that
    the job was enqueued with, if any.
    """

    job_id: str
    kind: str
    queue: str
    attempt: int
    outcome: str
    started_at_ms: int
    ms: int
    trace: str | None = None


class Quarantined(msgspec.Struct, frozen=True, tag=True):
    """Jobs of this fingerprint crashed so many times that they are held back."""

    fingerprint: str
    crashes: int


class Evicted(msgspec.Struct, frozen=True, tag=True):
    """`count` jobs that had ended in this queue were deleted, as their retention is over."""

    queue: str
    count: int


class WorkerSaturation(msgspec.Struct, frozen=True, tag=True):
    """How busy a worker is, at each of its heartbeats; the ratios are between 0 and 1."""

    worker: str
    inflight: int
    capacity: int
    utilization: float
    empty_poll_ratio: float
    polls: int
    empty_polls: int


class WorkerMemory(msgspec.Struct, frozen=True, tag=True):
    """How much memory a worker's process uses, of at most how much, at each look of its guard.

    With `restart_requested` it is too much: the worker drains and ends, to be started anew.
    """

    worker: str
    used_bytes: int
    limit_bytes: int
    restart_requested: bool


Event: TypeAlias = (
    Admitted
    | Rejected
    | Completed
    | JobSpan
    | Quarantined
    | Evicted
    | WorkerSaturation
    | WorkerMemory
)
