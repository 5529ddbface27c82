"""Why a job does not run: the rules of the gate, asked of one job in the order of the gate."""

from datetime import UTC, datetime
from typing import Final

import msgspec

from headgate.model.lifecycle import State
from headgate.model.limits import MAX_MS
from headgate.model.policy import Saturation

UNLIMITED: Final = "unlimited (no such rate class)"
_DUE_LATER: Final = frozenset({State.SCHEDULED, State.RETRYABLE})


class Admission(msgspec.Struct, kw_only=True):
    """Whether a job may run now, and what keeps it.

    `blocked_by` None with `admissible` false means that no policy is in its way: it is not waiting
    at all. `estimated_admission_ms` None means that what keeps it does not pass by itself, or not
    before the year 9999.
    """

    admissible: bool
    blocked_by: str | None
    detail: dict[str, str]
    estimated_admission_ms: int | None
    advice: list[str] | msgspec.UnsetType = msgspec.UNSET


class Bucket(msgspec.Struct, kw_only=True, frozen=True):
    """The rate class of the job as the gate sees it; `level` are the whole tokens it holds now.

    `reserved_for` is the job that it saves up for, which costs `reserved_cost`; `passed_over` says
    that the job is of another lane, so nothing of it starts until then.
    """

    level: int
    burst: int
    limit_per_window: int
    window_ms: int
    paused: bool
    reserved_for: str | None = None
    reserved_cost: int = 0
    passed_over: bool = False


class Ceiling(msgspec.Struct, kw_only=True, frozen=True):
    """The concurrency limit of the queue, and what runs in the partition of the job."""

    max_concurrent: int
    on_saturated: str
    inflight: int


class AdmissionFacts(msgspec.Struct, kw_only=True, frozen=True):
    """All that the rules ask, of one instant.

    `tokens_ahead` is what the jobs before it in queue and rate class cost, of the first 1,000 of
    them; `position` counts those before it in its partition up to 1,000.
    """

    now_ms: int
    state: str
    queue: str
    queue_paused: bool
    scheduled_at_ms: int
    fingerprint: str
    quarantined: bool
    rate_class: str
    weight: int
    bucket: Bucket | None
    tokens_ahead: int
    ceiling: Ceiling | None
    position: int
    sticky_worker: str
    live_workers: int = 0
    sticky_worker_live: bool = False
    sticky_worker_seen_at_ms: int | None = None


def explain(facts: AdmissionFacts) -> Admission:
    """The first reason against the job, or where it stands in its line."""
    detail = {"state": facts.state}
    if facts.state == State.RUNNING:
        return _admissible(detail)
    if facts.state in _DUE_LATER:
        return _not_due(facts, detail)
    if facts.state == State.QUARANTINED:
        return _blocked("quarantine", detail)
    if facts.state != State.AVAILABLE:
        return _blocked(None, detail)
    if facts.queue_paused:
        return _blocked("queue_paused", detail)
    if facts.scheduled_at_ms > facts.now_ms:
        return _not_due(facts, detail)
    if facts.quarantined:
        return _blocked("quarantine", detail | {"fingerprint": facts.fingerprint})
    if facts.rate_class:
        detail |= {
            "rate_class": facts.rate_class,
            "weight": str(facts.weight),
            "tokens_ahead_in_class": str(facts.tokens_ahead),
            "tokens_available": _tokens(facts.bucket),
        }
        if facts.bucket and facts.bucket.reserved_for:
            detail["class_saves_up_for"] = facts.bucket.reserved_for
        if facts.bucket and _is_short(facts.bucket, facts.weight):
            return _blocked("rate_class", detail, _refill_ms(facts, facts.bucket))
    if facts.ceiling:
        detail |= {
            "max_concurrent": str(facts.ceiling.max_concurrent),
            "inflight": str(facts.ceiling.inflight),
            "on_saturated": facts.ceiling.on_saturated,
        }
        full = facts.ceiling.inflight >= facts.ceiling.max_concurrent
        if full and facts.ceiling.on_saturated != Saturation.CANCEL_RUNNING:
            return _blocked("concurrency_limit", detail)
    detail |= {"position_in_partition": str(facts.position), "partition_deficit": "0"}
    return _admissible(detail)


def advise(facts: AdmissionFacts) -> list[str]:
    """What the rules do not ask, but keeps a job waiting all the same or lets it run unlimited."""
    advice = []
    if facts.state in {State.AVAILABLE, *_DUE_LATER}:
        if not facts.live_workers:
            advice.append(f"no live worker polls queue {facts.queue}")
        if facts.sticky_worker and not facts.sticky_worker_live:
            seen = facts.sticky_worker_seen_at_ms
            known = "never seen" if seen is None else f"not seen since {_utc(seen)}"
            advice.append(f"pinned to worker {facts.sticky_worker}, {known}")
    if facts.rate_class and facts.bucket is None:
        advice.append(f"rate class {facts.rate_class} does not exist, so nothing limits this job")
    return advice


def _admissible(detail: dict[str, str]) -> Admission:
    return Admission(admissible=True, blocked_by=None, detail=detail, estimated_admission_ms=0)


def _blocked(
    reason: str | None, detail: dict[str, str], estimate_ms: int | None = None
) -> Admission:
    return Admission(
        admissible=False, blocked_by=reason, detail=detail, estimated_admission_ms=estimate_ms
    )


def _not_due(facts: AdmissionFacts, detail: dict[str, str]) -> Admission:
    detail["scheduled_at_ms"] = str(facts.scheduled_at_ms)
    return _blocked("schedule", detail, max(0, facts.scheduled_at_ms - facts.now_ms))


def _tokens(bucket: Bucket | None) -> str:
    if bucket is None:
        return UNLIMITED
    return "0" if bucket.paused else str(bucket.level)


def _is_short(bucket: Bucket, weight: int) -> bool:
    """The gate's rule: a job costs its weight, and never more than all that the bucket can hold.

    While the class saves up for a job, nothing of its lane starts before, and nothing of others.
    """
    needed = max(min(weight, bucket.burst), bucket.reserved_cost)
    return bucket.paused or bucket.passed_over or bucket.level < needed


def _refill_ms(facts: AdmissionFacts, bucket: Bucket) -> int | None:
    """How long until the tokens for all before the job and for itself have come in."""
    if bucket.paused or bucket.limit_per_window == 0:
        return None
    cost = facts.tokens_ahead + min(facts.weight, bucket.burst)
    if bucket.passed_over:
        cost += bucket.reserved_cost
    estimate = max(1, cost - bucket.level) * bucket.window_ms // bucket.limit_per_window
    return estimate if estimate <= MAX_MS else None


def _utc(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
