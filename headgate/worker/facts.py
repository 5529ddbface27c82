"""What a handler may know of the job that it runs."""

from collections.abc import Mapping
from types import MappingProxyType

from headgate.client.signature import HandlerContext
from headgate.model.job import Claim, Lease, PeriodicOrigin


class JobFacts(HandlerContext):
    """The job and this attempt of it, as the gate handed them over."""

    __slots__ = ("_claim", "worker_id")

    def __init__(self, claim: Claim, worker_id: str) -> None:
        self._claim = claim
        self.worker_id = worker_id

    @property
    def id(self) -> str:
        return self._claim.job_id

    @property
    def kind(self) -> str:
        """The kind the job was enqueued with, which may be an alias of the task's."""
        return self._claim.kind

    @property
    def queue(self) -> str:
        return self._claim.queue

    @property
    def partition_key(self) -> str:
        return self._claim.partition_key

    @property
    def rate_class(self) -> str:
        return self._claim.rate_class

    @property
    def priority(self) -> int:
        return self._claim.priority

    @property
    def weight(self) -> int:
        return self._claim.weight

    @property
    def attempt(self) -> int:
        """How many attempts of this job failed before; 0 in the first."""
        return self._claim.attempt

    @property
    def crash_attempt(self) -> int:
        """How many attempts lost their worker before."""
        return self._claim.crash_attempt

    @property
    def max_attempts(self) -> int:
        return self._claim.max_attempts

    @property
    def schema_version(self) -> int:
        return self._claim.schema_version

    @property
    def enqueued_at_ms(self) -> int:
        return self._claim.enqueued_at_ms

    @property
    def scheduled_at_ms(self) -> int:
        return self._claim.scheduled_at_ms

    @property
    def deadline_ms(self) -> int:
        """The instant after which the job is not worth running; 0 when there is none."""
        return self._claim.deadline_ms

    @property
    def periodic_origin(self) -> PeriodicOrigin | None:
        """The schedule and the tick that made this job; None when no schedule did."""
        schedule_id = self._claim.periodic_schedule_id
        return PeriodicOrigin(schedule_id, self._claim.periodic_tick_ms) if schedule_id else None

    @property
    def headers(self) -> Mapping[str, str]:
        return MappingProxyType(self._claim.headers)

    @property
    def lease(self) -> Lease:
        """The right under which this attempt runs; its fence grows with every attempt."""
        return self._claim.lease
