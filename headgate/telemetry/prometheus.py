"""Events as metrics of Prometheus, in a registry of the application's own.

What the whole installation has (arrivals, ages, time to drain) is not a process's to count: the
control API tells it at `/metrics`.
"""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from headgate.model.job import Claim
from headgate.telemetry.events import (
    Admitted,
    Completed,
    Event,
    Evicted,
    JobSpan,
    Quarantined,
    Rejected,
    WorkerMemory,
    WorkerSaturation,
)

_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class PrometheusTelemetry:
    """Counts into `registry`. Labels are queues, kinds, outcomes and workers, nothing else.

    Raises `ValueError` when the registry has these metrics already, and leaves it as it was.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._admitted = Counter(
            "headgate_jobs_admitted", "Jobs that were admitted.", ["queue"], registry=None
        )
        self._rejected = Counter(
            "headgate_jobs_rejected",
            "Jobs that handlers gave back.",
            ["queue", "policy"],
            registry=None,
        )
        self._completed = Counter(
            "headgate_jobs_completed", "Jobs that succeeded.", ["kind"], registry=None
        )
        self._quarantined = Counter(
            "headgate_jobs_quarantined", "Fingerprints put in quarantine.", registry=None
        )
        self._evicted = Counter(
            "headgate_jobs_evicted", "Ended jobs that were deleted.", ["queue"], registry=None
        )
        self._duration = Histogram(
            "headgate_job_attempt_duration_seconds",
            "How long attempts ran.",
            ["queue", "kind", "outcome"],
            buckets=_BUCKETS,
            registry=None,
        )
        self._utilization = Gauge(
            "headgate_worker_utilization_ratio", "Jobs held per slot.", ["worker"], registry=None
        )
        self._empty_polls = Gauge(
            "headgate_worker_empty_poll_ratio",
            "Admissions that gave nothing.",
            ["worker"],
            registry=None,
        )
        self._inflight = Gauge("headgate_worker_inflight", "Jobs held.", ["worker"], registry=None)
        self._capacity = Gauge("headgate_worker_capacity", "Slots.", ["worker"], registry=None)
        self._memory = Gauge(
            "headgate_worker_memory_bytes", "Memory in use.", ["worker"], registry=None
        )
        self._memory_limit = Gauge(
            "headgate_worker_memory_limit_bytes", "Memory allowed.", ["worker"], registry=None
        )
        self._restarts = Counter(
            "headgate_worker_restart_requests",
            "Times that a worker ended for its memory.",
            ["worker"],
            registry=None,
        )
        self._register(registry)

    def on_event(self, event: Event, /) -> None:
        match event:
            case Admitted():
                self._admitted.labels(event.queue).inc(event.count)
            case Rejected():
                self._rejected.labels(event.queue, event.policy).inc(event.count)
            case Completed():
                self._completed.labels(event.kind).inc()
            case JobSpan():
                self._duration.labels(event.queue, event.kind, event.outcome).observe(
                    event.ms / 1000
                )
            case Quarantined():
                self._quarantined.inc()
            case Evicted():
                self._evicted.labels(event.queue).inc(event.count)
            case WorkerSaturation():
                self._utilization.labels(event.worker).set(event.utilization)
                self._empty_polls.labels(event.worker).set(event.empty_poll_ratio)
                self._inflight.labels(event.worker).set(event.inflight)
                self._capacity.labels(event.worker).set(event.capacity)
            case WorkerMemory():
                self._memory.labels(event.worker).set(event.used_bytes)
                self._memory_limit.labels(event.worker).set(event.limit_bytes)
                if event.restart_requested:
                    self._restarts.labels(event.worker).inc()

    def attempt(self, claim: Claim, /) -> None:
        return None

    def _register(self, registry: CollectorRegistry) -> None:
        done = []
        try:
            for metric in vars(self).values():
                registry.register(metric)
                done.append(metric)
        except ValueError:
            for metric in done:
                registry.unregister(metric)
            raise
