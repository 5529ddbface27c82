"""Attempts as spans of OpenTelemetry, and events as its metrics.

A span is open while the handler runs, so that what the handler does becomes part of it, and it goes
on with the trace that the job was enqueued in. Providers, exporters and propagators are the
application's.
"""

from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

from opentelemetry import context, metrics, trace
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import SpanKind, Status, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

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

_NAME: Final = "headgate"
_PROPAGATOR: Final = TraceContextTextMapPropagator()
_FAILED: Final = frozenset({"retry", "undecodable"})


class OpenTelemetry:
    """Passes everything on to these providers, or to the global ones."""

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        self._tracer = trace.get_tracer(_NAME, tracer_provider=tracer_provider)
        meter = metrics.get_meter(_NAME, meter_provider=meter_provider)
        self._admitted = meter.create_counter("headgate.jobs.admitted")
        self._rejected = meter.create_counter("headgate.jobs.rejected")
        self._completed = meter.create_counter("headgate.jobs.completed")
        self._quarantined = meter.create_counter("headgate.jobs.quarantined")
        self._evicted = meter.create_counter("headgate.jobs.evicted")
        self._duration = meter.create_histogram("headgate.job.duration", unit="ms")
        self._utilization = meter.create_gauge("headgate.worker.utilization")
        self._empty_polls = meter.create_gauge("headgate.worker.empty_poll_ratio")
        self._inflight = meter.create_gauge("headgate.worker.inflight")
        self._capacity = meter.create_gauge("headgate.worker.capacity")
        self._memory = meter.create_gauge("headgate.worker.memory", unit="By")
        self._memory_limit = meter.create_gauge("headgate.worker.memory_limit", unit="By")
        self._restarts = meter.create_counter("headgate.worker.restarts")

    def on_event(self, event: Event, /) -> None:
        match event:
            case Admitted():
                self._admitted.add(event.count, {"headgate.queue": event.queue})
            case Rejected():
                self._rejected.add(
                    event.count, {"headgate.queue": event.queue, "headgate.policy": event.policy}
                )
            case Completed():
                self._completed.add(1, {"headgate.kind": event.kind})
            case JobSpan():
                self._duration.record(
                    event.ms,
                    {
                        "headgate.job.kind": event.kind,
                        "headgate.queue": event.queue,
                        "headgate.outcome": event.outcome,
                    },
                )
            case Quarantined():
                self._quarantined.add(1)
            case Evicted():
                self._evicted.add(event.count, {"headgate.queue": event.queue})
            case WorkerSaturation():
                worker = {"headgate.worker": event.worker}
                self._utilization.set(event.utilization, worker)
                self._empty_polls.set(event.empty_poll_ratio, worker)
                self._inflight.set(event.inflight, worker)
                self._capacity.set(event.capacity, worker)
            case WorkerMemory():
                worker = {"headgate.worker": event.worker}
                self._memory.set(event.used_bytes, worker)
                self._memory_limit.set(event.limit_bytes, worker)
                if event.restart_requested:
                    self._restarts.add(1, worker)

    def attempt(self, claim: Claim, /) -> "AttemptSpan":
        return AttemptSpan(self._tracer, claim)


class AttemptSpan:
    """The span `headgate.process` around one attempt."""

    def __init__(self, tracer: trace.Tracer, claim: Claim) -> None:
        # From an empty context: whatever trace the worker itself is in is not the job's.
        parent = _PROPAGATOR.extract(claim.headers, context=Context())
        self._span = tracer.start_span(
            "headgate.process",
            context=parent,
            kind=SpanKind.CONSUMER,
            attributes={
                "headgate.job.id": claim.job_id,
                "headgate.job.kind": claim.kind,
                "headgate.queue": claim.queue,
                "headgate.attempt": claim.attempt,
            },
        )
        self._token: object = None

    def __enter__(self) -> Self:
        self._token = context.attach(trace.set_span_in_context(self._span))
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        context.detach(self._token)  # type: ignore[arg-type]  # what attach handed out
        self._span.end()

    def finish(self, outcome: str, error: str | None) -> None:
        self._span.set_attribute("headgate.outcome", outcome)
        if outcome == "success":
            self._span.set_status(Status(StatusCode.OK))
        elif outcome in _FAILED:
            self._span.set_status(Status(StatusCode.ERROR, error))


def trace_headers() -> Mapping[str, str]:
    """The headers of the current span, for `TraceContextMiddleware`; empty outside a trace."""
    headers: dict[str, str] = {}
    _PROPAGATOR.inject(headers)
    return headers
