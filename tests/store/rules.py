"""The rules of admission in the plainest words: slow, without order or fairness, and easy to check.

It answers which jobs may run, what they cost and why the others wait. The gate chooses among the
jobs that may run; these rules only follow its choice and object to what must not be.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Waiting:
    """What the rules know of a job."""

    queue: str
    partition_key: str
    rate_class: str
    weight: int
    priority: int
    fingerprint: str
    sticky_worker: str


@dataclass
class Bucket:
    level: int
    burst: int
    paused: bool

    def cost(self, weight: int) -> int:
        """No job costs more than the bucket can hold, or it would never run."""
        return min(weight, self.burst)


@dataclass
class Rules:
    """The state of one installation."""

    buckets: dict[str, Bucket] = field(default_factory=dict)
    ceilings: dict[str, int] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    quarantined: set[str] = field(default_factory=set)
    waiting: dict[str, Waiting] = field(default_factory=dict)
    running: dict[str, Waiting] = field(default_factory=dict)
    charges: dict[str, int] = field(default_factory=dict)

    def reason(self, job: Waiting) -> str | None:
        """The first thing that keeps a waiting job from starting, in the order of `explain`."""
        if job.queue in self.paused:
            return "queue_paused"
        if job.fingerprint in self.quarantined:
            return "quarantine"
        bucket = self.buckets.get(job.rate_class)
        if bucket and (bucket.paused or bucket.level < bucket.cost(job.weight)):
            return "rate_class"
        ceiling = self.ceilings.get(job.queue)
        if ceiling is not None and self._running_beside(job) >= ceiling:
            return "concurrency_limit"
        return None

    def may_start(self, job: Waiting, worker: str, queues: Iterable[str]) -> bool:
        served = job.queue in queues and job.sticky_worker in {"", worker}
        return served and self.reason(job) is None

    def start(self, job_id: str, worker: str, queues: Iterable[str]) -> None:
        """Books a job that the gate has started. Budgets only shrink by it, so in whichever order
        the jobs of one call come, the last one does not fit if all of them do not.
        """
        job = self.waiting.pop(job_id)
        assert self.may_start(job, worker, queues), (job, self.reason(job))
        bucket = self.buckets.get(job.rate_class)
        self.charges[job_id] = bucket.cost(job.weight) if bucket else 0
        if bucket:
            bucket.level -= self.charges[job_id]
        self.running[job_id] = job

    def finish(self, job_id: str, actual_weight: int | None) -> None:
        """Ends a job; what it cost in truth is settled, unless nothing was charged or its class is
        paused.
        """
        job, charge = self.running.pop(job_id), self.charges.pop(job_id)
        bucket = self.buckets.get(job.rate_class)
        if bucket and charge and actual_weight is not None and not bucket.paused:
            bucket.level = min(bucket.burst, bucket.level + charge - actual_weight)

    def refill(self, rate_class: str, tokens: int) -> None:
        bucket = self.buckets[rate_class]
        bucket.level = min(bucket.burst, bucket.level + tokens)

    def overtaken(self, started: Waiting, worker: str, queues: Iterable[str]) -> list[Waiting]:
        """The jobs of a higher priority in the same queue that could still start now."""
        return [
            job
            for job in self.waiting.values()
            if job.queue == started.queue
            and job.priority > started.priority
            and self.may_start(job, worker, queues)
        ]

    def _running_beside(self, job: Waiting) -> int:
        return sum(
            (other.queue, other.partition_key) == (job.queue, job.partition_key)
            for other in self.running.values()
        )
