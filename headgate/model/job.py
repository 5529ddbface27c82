"""The structs that flow unchanged between the wire, the worker and the rows.

Times are milliseconds since the epoch on the database's clock; durations are milliseconds.
What there is of every attempt is unknown to the garbage collector: none of it can be part of a
cycle, and looking for cycles in thousands of them takes longer than the jobs do.
"""

from typing import Any

import msgspec

from headgate.model.lifecycle import Outcome


class Lease(msgspec.Struct, frozen=True, gc=False):
    """The right to report on one attempt of one job.

    `fence` grows with every entry into `running`, so an old holder can never pass for a new one
    even when it reuses a lease id.
    """

    job_id: str
    lease_id: str
    fence: int


class Claim(msgspec.Struct, gc=False):
    """One admitted job with everything a worker needs to run it, in the order of the columns."""

    job_id: str
    lease_id: str
    fence: int
    lease_expires_at_ms: int
    claimed_at_ms: int
    kind: str
    schema_version: int
    payload: bytes
    queue: str
    partition_key: str
    rate_class: str
    weight: int
    fingerprint: str
    priority: int
    attempt: int
    crash_attempt: int
    max_attempts: int
    enqueued_at_ms: int
    scheduled_at_ms: int
    timeout_ms: int
    deadline_ms: int
    retention_ms: int
    headers: dict[str, str]
    checkpoint: dict[str, Any]
    checkpoint_cursor: bytes | None
    periodic_schedule_id: str
    periodic_tick_ms: int
    sticky_worker: str

    @property
    def lease(self) -> Lease:
        return Lease(self.job_id, self.lease_id, self.fence)


class RequestKey(msgspec.Struct, frozen=True):
    """The key of a request that may be repeated; within its scope it makes one job."""

    scope: str
    key: str


class Enqueued(msgspec.Struct, frozen=True, gc=False):
    """Where an enqueue ended. `replayed`: an earlier request of the same key made this job."""

    id: str
    replayed: bool = False


class Stored(msgspec.Struct, frozen=True, gc=False):
    """Bytes that a handler published, with the version of their own format (1..2147483647)."""

    schema_version: int
    bytes: bytes


class Acknowledgement(msgspec.Struct, kw_only=True, frozen=True, gc=False):
    """How one attempt ended, as the holder of its lease reports it.

    `delay_ms` is required for `snooze` and overrides the backoff of `retry`; with `rate_limited`
    it postpones the return. `actual_weight` settles the tokens the gate charged in advance.
    """

    lease: Lease
    outcome: Outcome
    error: str | None = None
    delay_ms: int | None = None
    logs: tuple[str, ...] = ()
    actual_weight: int | None = None
    result: Stored | None = None


class Settlement(msgspec.Struct, frozen=True, gc=False):
    """The answer to one acknowledgement: the state the job went to, `deleted` when its row is
    gone, or None when the lease was no longer held and nothing changed.
    """

    job_id: str
    state: str | None


class Reclaimed(msgspec.Struct, frozen=True):
    """A job whose lease expired without an acknowledgement."""

    job_id: str
    kind: str
    fingerprint: str
    crash_attempt: int
    quarantined: bool


class WorkerBeat(msgspec.Struct, kw_only=True, frozen=True):
    """What a worker says of itself on every heartbeat."""

    worker_id: str
    host: str
    pid: int
    queues: tuple[str, ...]
    concurrency: int
    inflight: int
    polls: int
    empty_polls: int
    status: str = "running"
    duties_active: bool = True


class PeriodicOrigin(msgspec.Struct, frozen=True):
    schedule_id: str
    tick_ms: int


class Job(msgspec.Struct, kw_only=True):
    """A job as the control API shows it; `payload` and `metadata` only on request, and
    `workflow_id` only where one job is read that is part of a workflow.
    """

    id: str
    kind: str
    queue: str
    state: str
    schema_version: int
    priority: int
    attempt: int
    crash_attempt: int
    orphaned: bool
    max_attempts: int
    partition_key: str
    rate_class: str
    sticky_worker: str
    weight: int
    fingerprint: str
    enqueued_at_ms: int
    scheduled_at_ms: int
    claimed_at_ms: int | None
    periodic_origin: PeriodicOrigin | None
    finalized_at_ms: int | None
    errors: list[dict[str, Any]]
    tags: list[str]
    workflow_id: str | msgspec.UnsetType = msgspec.UNSET
    payload: bytes | msgspec.UnsetType = msgspec.UNSET
    metadata: dict[str, str] | msgspec.UnsetType = msgspec.UNSET


class JobFilter(msgspec.Struct, kw_only=True, frozen=True):
    """Every condition given must hold; None is no condition, "" is the empty name."""

    id: str | None = None
    queue: str | None = None
    state: str | None = None
    kind: str | None = None
    kind_prefix: str | None = None
    partition_key: str | None = None
    rate_class: str | None = None
    fingerprint: str | None = None
    priority: int | None = None
    tags_all: tuple[str, ...] = ()
    tags_any: tuple[str, ...] = ()


class DeadLetters(msgspec.Struct, frozen=True):
    """Jobs that failed for good lately; `approximate` says that there are more of them."""

    count: int
    approximate: bool


class JobPage(msgspec.Struct, kw_only=True):
    """Newest first. A `next_cursor` with a short page means: searched this far, continue."""

    jobs: list[Job]
    next_cursor: str | None
    count_is_approximate: bool = False
