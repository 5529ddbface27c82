"""What a store should hold after a history, by the transition table and the rules of keys."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from headgate.model.conditions import Effect, Facts
from headgate.model.envelope import Envelope
from headgate.model.errors import DuplicateJob, FingerprintQuarantined, StoreError
from headgate.model.identity import effective_unique_key
from headgate.model.job import Lease
from headgate.model.lifecycle import DELETED, LIVE, Event, State, transition


@dataclass
class ExpectedJob:
    """One job as it should be; `fence` is the highest that anybody has seen."""

    envelope: Envelope
    state: State
    attempt: int = 0
    crash_attempt: int = 0
    fence: int = 0
    lease: Lease | None = None

    @property
    def key(self) -> bytes | None:
        return key_of(self.envelope)


def key_of(envelope: Envelope) -> bytes | None:
    return effective_unique_key(envelope.kind, envelope.unique_key, envelope.unique_exclude_kind)


@dataclass
class Expected:
    """The jobs in the order in which they came, and the fingerprints that are quarantined."""

    jobs: dict[str, ExpectedJob] = field(default_factory=dict)
    quarantined: set[str] = field(default_factory=set)

    def holder(self, key: bytes | None) -> str | None:
        """The live job that holds the key."""
        return next(
            (
                job_id
                for job_id, job in self.jobs.items()
                if key is not None and job.key == key and job.state in LIVE
            ),
            None,
        )

    def judge(self, prepared: Iterable[Envelope]) -> None:
        """Raises what the store should refuse these new jobs for."""
        batch = list(prepared)
        for envelope in batch:
            if envelope.fingerprint in self.quarantined:
                raise FingerprintQuarantined(envelope.fingerprint)
        for envelope in batch:
            holder = self.holder(key_of(envelope))
            if holder is not None:
                raise DuplicateJob(holder)

    def take(self, prepared: Iterable[Envelope]) -> None:
        """The jobs get in."""
        for envelope in prepared:
            facts = Facts(pending=envelope.pending, later=envelope.delay_ms > 0)
            target = transition(None, Event.ENQUEUED, facts).target
            self.jobs[envelope.id] = ExpectedJob(envelope, State(target))

    def happen(self, job_id: str, event: Event, *, delay_ms: int = 0) -> str:
        """Takes the job along the edge of the table; the state it is in then."""
        job = self.jobs[job_id]
        edge = transition(
            job.state,
            event,
            Facts(
                retention_ms=job.envelope.retention_ms,
                delay_ms=delay_ms,
                attempt=job.attempt,
                max_attempts=job.envelope.max_attempts,
                crash_attempt=job.crash_attempt,
            ),
        )
        job.attempt += Effect.ATTEMPT in edge.effects
        job.crash_attempt += Effect.CRASH_ATTEMPT in edge.effects
        if Effect.CRASHES_FORGIVEN in edge.effects:
            job.crash_attempt = 0
        if edge.target == DELETED:
            del self.jobs[job_id]
            return DELETED
        job.state = State(edge.target)
        job.lease = None
        if job.state is State.QUARANTINED and event is Event.LEASE_LOST:
            self.quarantined.add(job.envelope.fingerprint)
        return job.state

    def revive(self, job_id: str, event: Event) -> None:
        """An edge back into a live state. Raises `DuplicateJob` where the key has a new holder."""
        job = self.jobs[job_id]
        holder = self.holder(job.key)
        # The table decides first whether there is such an edge at all.
        transition(job.state, event, Facts())
        if holder not in (None, job_id):
            raise DuplicateJob(str(holder))
        self.happen(job_id, event)

    def release(self, fingerprint: str) -> None:
        """Raises `DuplicateJob` when every parked job of it clashes, `KeyError` for no such one."""
        parked = self.in_states({State.QUARANTINED}, fingerprint)
        if not parked and fingerprint not in self.quarantined:
            raise KeyError(fingerprint)
        clash: StoreError | None = None
        freed = 0
        for job_id in parked:
            try:
                self.revive(job_id, Event.OPERATOR_RELEASE)
                freed += 1
            except DuplicateJob as duplicate:
                clash = duplicate
        if clash is not None and not freed:
            raise clash
        self.quarantined.discard(fingerprint)

    def in_states(self, states: set[State], fingerprint: str | None = None) -> list[str]:
        return [
            job_id
            for job_id, job in self.jobs.items()
            if job.state in states and fingerprint in (None, job.envelope.fingerprint)
        ]

    def admissible(self) -> set[str]:
        """What a gate without policies may start."""
        return {
            job_id
            for job_id in self.in_states({State.AVAILABLE})
            if self.jobs[job_id].envelope.fingerprint not in self.quarantined
        }
