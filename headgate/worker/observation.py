"""What a worker tells those who listen to it."""

import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

from headgate.model.job import Claim, WorkerBeat
from headgate.model.lifecycle import Outcome
from headgate.telemetry.events import (
    Admitted,
    Completed,
    JobSpan,
    Rejected,
    WorkerMemory,
    WorkerSaturation,
)
from headgate.telemetry.telemetry import Telemetries
from headgate.worker.attempt import Attempt

LEASE_LOST: Final = "lease_lost"
RATE_CLASS: Final = "rate_class"
"""The policy for which handlers give jobs back: what `RateLimited` stands for."""


class Observation:
    """Turns what happens in a worker into events. Without listeners nothing is made."""

    def __init__(self, telemetry: Telemetries) -> None:
        self._telemetry = telemetry

    def admitted(self, claims: Sequence[Claim]) -> None:
        """The gate gave these."""
        if self._telemetry.listeners:
            for queue, count in Counter(claim.queue for claim in claims).items():
                self._telemetry.on_event(Admitted(queue, count))

    def settled(self, attempt: Attempt) -> None:
        """Nothing is left to be reported of this attempt; each is told once, if it ever ran."""
        if not self._telemetry.listeners or attempt.told or not attempt.started:
            return
        attempt.told = True
        claim = attempt.claim
        outcome = attempt.outcome if attempt.confirmed else LEASE_LOST
        waited_ms = int((attempt.started_at - attempt.taken_at) * 1000)
        ran_ms = int(((attempt.ended_at or time.monotonic()) - attempt.started_at) * 1000)
        if outcome == Outcome.SUCCESS:
            self._telemetry.on_event(Completed(claim.kind, ran_ms))
        elif outcome == Outcome.RATE_LIMITED and not attempt.stop_reason:
            self._telemetry.on_event(Rejected(claim.queue, RATE_CLASS, 1))
        self._telemetry.on_event(
            JobSpan(
                job_id=claim.job_id,
                kind=claim.kind,
                queue=claim.queue,
                attempt=claim.attempt,
                outcome=outcome,
                started_at_ms=claim.claimed_at_ms + waited_ms,
                ms=ran_ms,
                trace=claim.headers.get("traceparent"),
            )
        )

    def memory(self, worker: str, used_bytes: int, limit_bytes: int, *, restart: bool) -> None:
        """How large the worker has grown, and whether it ends for that."""
        if self._telemetry.listeners:
            self._telemetry.on_event(WorkerMemory(worker, used_bytes, limit_bytes, restart))

    def beat(self, beat: WorkerBeat) -> None:
        """How busy the worker says it is."""
        if self._telemetry.listeners:
            self._telemetry.on_event(
                WorkerSaturation(
                    worker=beat.worker_id,
                    inflight=beat.inflight,
                    capacity=beat.concurrency,
                    utilization=min(1.0, beat.inflight / beat.concurrency),
                    empty_poll_ratio=beat.empty_polls / beat.polls if beat.polls else 0.0,
                    polls=beat.polls,
                    empty_polls=beat.empty_polls,
                )
            )
