"""The rules of admission in the plainest words: slow, without order or fairness, and easy to check.

They answer which jobs may run, what they cost and why the others wait. The gate chooses among the
jobs that may run; these rules only follow its choice and object to what must not be.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

ENDS = {"discard": "archived", "cancel_incoming": "cancelled"}
"""How a job ends that finds no room, where it does not wait for it."""

# How many times as long as its own refill a job waits before its class saves up for it.
PATIENCE = 2


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

    def is_beside(self, other: "Waiting") -> bool:
        return (self.queue, self.partition_key) == (other.queue, other.partition_key)

    def is_behind(self, other: "Waiting") -> bool:
        """In one lane, if the other came earlier."""
        mine, theirs = (
            (job.queue, job.sticky_worker, job.priority, job.partition_key, job.rate_class)
            for job in (self, other)
        )
        return mine == theirs


@dataclass
class Running:
    job: Waiting
    charge: int
    call: int


@dataclass(frozen=True)
class Ceiling:
    limit: int
    mode: str


@dataclass
class Bucket:
    """`reserved` is the job that it saves up for, until more than `patience` tokens came in."""

    level: int
    burst: int
    paused: bool
    reserved: str | None = None
    patience: int = 0

    def cost(self, job: Waiting) -> int:
        """No job costs more than the bucket can hold, or it would never run."""
        return min(job.weight, self.burst)

    def is_short(self, job: Waiting) -> bool:
        return self.paused or self.level < self.cost(job)


@dataclass(frozen=True)
class Call:
    """What one call of the gate did: the jobs it started, those that lost their places to them,
    how those ended that found no room, and the job that each class saves up for now.
    """

    worker: str
    queues: Collection[str]
    started: Collection[str]
    displaced: Collection[str]
    refused: Mapping[str, str]
    reserved: Mapping[str, str]

    def serves(self, job: Waiting) -> bool:
        return job.queue in self.queues and job.sticky_worker in {"", self.worker}


@dataclass
class Rules:
    """The state of one installation. Time is counted in tokens."""

    buckets: dict[str, Bucket] = field(default_factory=dict)
    ceilings: dict[str, Ceiling] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    quarantined: set[str] = field(default_factory=set)
    waiting: dict[str, Waiting] = field(default_factory=dict)
    running: dict[str, Running] = field(default_factory=dict)
    since: dict[str, int] = field(default_factory=dict)
    now: int = 0
    calls: int = 0

    def enqueue(self, jobs: Mapping[str, Waiting]) -> None:
        self.waiting |= jobs
        self.since |= dict.fromkeys(jobs, self.now)

    def reason(self, job: Waiting) -> str | None:
        """The first thing that keeps a waiting job from starting, in the order of `explain`."""
        if job.queue in self.paused:
            return "queue_paused"
        if job.fingerprint in self.quarantined:
            return "quarantine"
        bucket = self.buckets.get(job.rate_class)
        if bucket and (bucket.is_short(job) or self._makes_way(job, bucket)):
            return "rate_class"
        if self._is_full(job):
            return "concurrency_limit"
        return None

    def follow(self, call: Call) -> None:
        """Books what a call did, and objects to what is against the rules.

        Budgets and room only shrink by it, so in whichever order its jobs came, the last one does
        not fit if all of them do not. A call takes several steps: what is free, or has room, only
        for some of them is neither demanded nor forbidden.
        """
        self.calls += 1
        free = [job_id for job_id, job in self.waiting.items() if self.reason(job) is None]
        roomy = {job_id for job_id, job in self.waiting.items() if self._has_room(job)}
        self._assert_way_is_made(call)
        displaced = [self.running.pop(job_id) for job_id in call.displaced]
        for job_id in call.started:
            self._start(job_id, call)
        for each in displaced:
            self._assert_displaced_in_need(each)
        for job_id, state in call.refused.items():
            self._refuse(job_id, state, call)
        for name, job_id in call.reserved.items():
            if self.buckets[name].reserved != job_id:
                assert job_id in roomy
                self._reserve(name, job_id, call)
        assert call.reserved.keys() >= {
            name for name, bucket in self.buckets.items() if bucket.reserved in self.waiting
        }, "a reservation was lost"
        for job_id in free:
            if job_id in self.waiting and self.reason(self.waiting[job_id]) is None:
                self._assert_not_overtaken(self.waiting[job_id], call)

    def finish(self, job_id: str, actual_weight: int | None) -> None:
        """Ends a job; what it cost in truth is settled, unless nothing was charged or its class is
        paused.
        """
        ended = self.running.pop(job_id)
        bucket = self.buckets.get(ended.job.rate_class)
        if bucket and ended.charge and actual_weight is not None and not bucket.paused:
            bucket.level = min(bucket.burst, bucket.level + ended.charge - actual_weight)

    def refill(self, rate_class: str, tokens: int) -> None:
        bucket = self.buckets[rate_class]
        bucket.level = min(bucket.burst, bucket.level + tokens)
        bucket.patience -= tokens
        if bucket.patience < 0:
            bucket.reserved = None

    def starving(self, call: Call) -> list[str]:
        """The jobs that their class must save up for, unless it does for another."""
        return [
            job_id
            for job_id, job in self.waiting.items()
            if job.rate_class in self.buckets
            and self.buckets[job.rate_class].reserved not in self.waiting
            and self._has_room(job)
            and self._starves(job_id, call)
        ]

    def _starves(self, job_id: str, call: Call) -> bool:
        """For long only the tokens have kept it from starting, and it is first in its lane and its
        level the highest of its queue that wants them. Whether there is room is for others to ask.
        """
        job = self.waiting[job_id]
        bucket = self.buckets[job.rate_class]
        cost = bucket.cost(job)
        patient = cost == 1 or self.now - self.since[job_id] <= PATIENCE * cost
        rivals = [
            (other_id, other)
            for other_id, other in self.waiting.items()
            if (other.queue, other.rate_class) == (job.queue, job.rate_class)
            and self._may_be_asked_for(other, call)
        ]
        lane = [other_id for other_id, other in rivals if other.is_behind(job)]
        outranked = any(
            other.priority > job.priority and self._has_room(other) for _, other in rivals
        )
        short = bucket.is_short(job) and not bucket.paused
        return short and not patient and lane[:1] == [job_id] and not outranked

    def _may_be_asked_for(self, job: Waiting, call: Call) -> bool:
        held = job.queue in self.paused or job.fingerprint in self.quarantined
        return call.serves(job) and not held

    def _makes_way(self, job: Waiting, bucket: Bucket) -> bool:
        """The class saves up, for another lane or for what it cannot pay in this one yet."""
        reserved = self.waiting.get(bucket.reserved or "")
        return reserved is not None and (not job.is_behind(reserved) or bucket.is_short(reserved))

    def _assert_way_is_made(self, call: Call) -> None:
        """Nobody took what is saved up for a job that did not start. Once it does, all may."""
        for job_id in (*call.started, *call.refused):
            job = self.waiting[job_id]
            bucket = self.buckets.get(job.rate_class)
            if bucket and bucket.reserved not in call.started:
                assert not self._makes_way(job, bucket), job
        for job_id in call.refused:
            bucket = self.buckets.get(self.waiting[job_id].rate_class)
            assert not (bucket and bucket.is_short(self.waiting[job_id])), "it lacks tokens too"

    def _start(self, job_id: str, call: Call) -> None:
        job = self.waiting.pop(job_id)
        bucket = self.buckets.get(job.rate_class)
        assert self._may_be_asked_for(job, call), job
        assert self._has_room(job), job
        assert not (bucket and bucket.is_short(job)), job
        self.running[job_id] = Running(job, bucket.cost(job) if bucket else 0, self.calls)
        if bucket:
            bucket.level -= bucket.cost(job)

    def _refuse(self, job_id: str, state: str, call: Call) -> None:
        job = self.waiting.pop(job_id)
        assert self._may_be_asked_for(job, call), job
        assert not self._has_room(job), job
        assert ENDS[self.ceilings[job.queue].mode] == state, job

    def _assert_displaced_in_need(self, displaced: Running) -> None:
        """By newcomers that fill the house, and none older was spared."""
        others = self._beside(displaced.job)
        assert self.ceilings[displaced.job.queue].mode == "cancel_running", displaced
        assert not self._has_room(displaced.job), displaced
        assert max(other.call for other in others) == self.calls, displaced
        assert min(other.call for other in others) >= displaced.call, displaced

    def _reserve(self, name: str, job_id: str, call: Call) -> None:
        bucket = self.buckets[name]
        assert bucket.reserved not in self.waiting, "it saves up for another"
        assert self._starves(job_id, call), self.waiting[job_id]
        bucket.reserved = job_id
        bucket.patience = bucket.cost(self.waiting[job_id]) - bucket.level

    def _assert_not_overtaken(self, job: Waiting, call: Call) -> None:
        if call.serves(job):
            started = (self.running[job_id].job for job_id in call.started)
            overtaker = [
                other
                for other in started
                if other.queue == job.queue and other.priority < job.priority
            ]
            assert overtaker == [], job

    def _beside(self, job: Waiting) -> list[Running]:
        return [running for running in self.running.values() if running.job.is_beside(job)]

    def _has_room(self, job: Waiting) -> bool:
        ceiling = self.ceilings.get(job.queue)
        return ceiling is None or len(self._beside(job)) < ceiling.limit

    def _is_full(self, job: Waiting) -> bool:
        """Where what runs makes room, only the jobs of the last call keep their places from it."""
        ceiling = self.ceilings.get(job.queue)
        if ceiling and ceiling.mode == "cancel_running":
            own = [running for running in self._beside(job) if running.call == self.calls]
            return len(own) >= ceiling.limit
        return not self._has_room(job)
