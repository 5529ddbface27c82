"""Listeners: what they are told, what they make of it, and that nobody suffers from them."""

import logging
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from prometheus_client import CollectorRegistry, Counter

from headgate.model.job import Claim
from headgate.telemetry import (
    Admitted,
    Completed,
    Event,
    Evicted,
    JobSpan,
    Quarantined,
    Rejected,
    Telemetries,
    WorkerMemory,
    WorkerSaturation,
)
from headgate.telemetry.opentelemetry import OpenTelemetry, trace_headers
from headgate.telemetry.prometheus import PrometheusTelemetry

EVENTS: list[Event] = [
    Admitted("mail", 3),
    Rejected("mail", "rate_class", 2),
    Completed("send", 120),
    JobSpan("j", "send", "mail", 0, "success", 1_000, 120),
    Quarantined("f", 3),
    Evicted("mail", 7),
    WorkerSaturation("w", 4, 8, 0.5, 0.25, 4, 1),
    WorkerMemory("w", 900, 800, True),
]
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def claim(**fields: Any) -> Claim:
    values: dict[str, Any] = {
        name: 0 if kind is int else "" for name, kind in Claim.__annotations__.items()
    }
    given = {"job_id": "j", "kind": "send", "queue": "mail", "payload": b"", "headers": {}}
    return Claim(**{**values, **given, **fields})


def test_events_become_metrics_of_prometheus() -> None:
    registry = CollectorRegistry()
    telemetry = PrometheusTelemetry(registry)
    for event in EVENTS:
        telemetry.on_event(event)
    expected = {
        ("headgate_jobs_admitted_total", (("queue", "mail"),)): 3,
        ("headgate_jobs_rejected_total", (("queue", "mail"), ("policy", "rate_class"))): 2,
        ("headgate_jobs_completed_total", (("kind", "send"),)): 1,
        ("headgate_jobs_quarantined_total", ()): 1,
        ("headgate_jobs_evicted_total", (("queue", "mail"),)): 7,
        ("headgate_worker_utilization_ratio", (("worker", "w"),)): 0.5,
        ("headgate_worker_empty_poll_ratio", (("worker", "w"),)): 0.25,
        ("headgate_worker_inflight", (("worker", "w"),)): 4,
        ("headgate_worker_capacity", (("worker", "w"),)): 8,
        ("headgate_worker_memory_bytes", (("worker", "w"),)): 900,
        ("headgate_worker_memory_limit_bytes", (("worker", "w"),)): 800,
        ("headgate_worker_restart_requests_total", (("worker", "w"),)): 1,
    }
    for (name, labels), value in expected.items():
        assert registry.get_sample_value(name, dict(labels)) == value
    duration = {"queue": "mail", "kind": "send", "outcome": "success"}
    name = "headgate_job_attempt_duration_seconds"
    assert registry.get_sample_value(f"{name}_sum", duration) == 0.12
    assert registry.get_sample_value(f"{name}_bucket", {**duration, "le": "0.1"}) == 0
    assert registry.get_sample_value(f"{name}_bucket", {**duration, "le": "0.25"}) == 1


def test_a_registry_that_has_one_of_them_stays_as_it_was() -> None:
    registry = CollectorRegistry()
    Counter("headgate_jobs_evicted", "Somebody else's.", registry=registry)
    before = [family.name for family in registry.collect()]
    with pytest.raises(ValueError, match="headgate_jobs_evicted"):
        PrometheusTelemetry(registry)
    assert [family.name for family in registry.collect()] == before


class Exported:
    def __init__(self) -> None:
        self.spans = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self.spans))
        self.tracer = tracers.get_tracer("handlers")
        self.telemetry = OpenTelemetry(
            tracer_provider=tracers, meter_provider=MeterProvider([self.reader])
        )

    def metrics(self) -> dict[str, Any]:
        data = self.reader.get_metrics_data()
        assert data is not None
        return {
            metric.name: [
                (dict(point.attributes or {}), point) for point in metric.data.data_points
            ]
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


def test_a_span_is_open_while_the_handler_runs_and_goes_on_with_the_trace() -> None:
    exported = Exported()
    with exported.telemetry.attempt(claim(headers={"traceparent": PARENT}, attempt=2)) as span:
        with exported.tracer.start_as_current_span("query"):
            assert trace_headers()["traceparent"].split("-")[1] == PARENT.split("-")[1]
        span.finish("success", None)
    query, process = exported.spans.get_finished_spans()
    assert process.name == "headgate.process"
    assert process.kind is SpanKind.CONSUMER
    assert process.parent is not None
    assert process.parent.span_id == int(PARENT.split("-")[2], 16)
    assert query.parent == process.context
    assert dict(process.attributes or {}) == {
        "headgate.job.id": "j",
        "headgate.job.kind": "send",
        "headgate.queue": "mail",
        "headgate.attempt": 2,
        "headgate.outcome": "success",
    }
    assert process.status.status_code is StatusCode.OK
    assert not trace.get_current_span().get_span_context().is_valid
    assert trace_headers() == {}


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        ("retry", StatusCode.ERROR),
        ("undecodable", StatusCode.ERROR),
        ("skip", StatusCode.UNSET),
        ("snooze", StatusCode.UNSET),
        ("lease_lost", StatusCode.UNSET),
    ],
)
def test_a_job_without_a_trace_begins_one(outcome: str, status: StatusCode) -> None:
    exported = Exported()
    with (
        exported.tracer.start_as_current_span("the worker's own"),
        exported.telemetry.attempt(claim()) as span,
    ):
        span.finish(outcome, "text")
    process = exported.spans.get_finished_spans()[0]
    assert process.parent is None
    assert process.status.status_code is status


def test_events_become_metrics_of_opentelemetry() -> None:
    exported = Exported()
    for event in EVENTS:
        exported.telemetry.on_event(event)
    metrics = exported.metrics()
    [(attributes, admitted)] = metrics["headgate.jobs.admitted"]
    assert (attributes, admitted.value) == ({"headgate.queue": "mail"}, 3)
    [(attributes, duration)] = metrics["headgate.job.duration"]
    assert attributes == {
        "headgate.job.kind": "send",
        "headgate.queue": "mail",
        "headgate.outcome": "success",
    }
    assert duration.sum == 120
    [(attributes, utilization)] = metrics["headgate.worker.utilization"]
    assert (attributes, utilization.value) == ({"headgate.worker": "w"}, 0.5)
    assert set(metrics) == {
        "headgate.jobs.admitted",
        "headgate.jobs.rejected",
        "headgate.jobs.completed",
        "headgate.jobs.quarantined",
        "headgate.jobs.evicted",
        "headgate.job.duration",
        "headgate.worker.utilization",
        "headgate.worker.empty_poll_ratio",
        "headgate.worker.inflight",
        "headgate.worker.capacity",
        "headgate.worker.memory",
        "headgate.worker.memory_limit",
        "headgate.worker.restarts",
    }


class Broken:
    """Fails at whatever it is asked for."""

    def __init__(self, *, opens: bool = False) -> None:
        self.opens = opens

    def on_event(self, event: Event, /) -> None:
        raise RuntimeError("no")

    def attempt(self, claim: Claim, /) -> "Broken":
        if not self.opens:
            raise RuntimeError("no")
        return self

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        raise RuntimeError("no")

    def finish(self, outcome: str, error: str | None) -> None:
        raise RuntimeError("no")


def test_a_listener_that_fails_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    registry = CollectorRegistry()
    exported = Exported()
    telemetries = Telemetries(
        [Broken(), Broken(opens=True), PrometheusTelemetry(registry), exported.telemetry]
    )
    with caplog.at_level(logging.ERROR):
        telemetries.on_event(Admitted("mail", 1))
        with telemetries.attempt(claim()) as spans:
            spans.finish("success", None)
    assert registry.get_sample_value("headgate_jobs_admitted_total", {"queue": "mail"}) == 1
    [process] = exported.spans.get_finished_spans()
    assert process.status.status_code is StatusCode.OK
    assert len(caplog.records) == 5
