"""What workers and duties tell while they work, and the adapters that pass it on.

`headgate.telemetry.prometheus` needs the extra `prometheus`, `headgate.telemetry.opentelemetry` the
extra `otel`; the rest needs nothing.
"""

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
from headgate.telemetry.telemetry import Span, Telemetries, Telemetry

__all__ = [
    "Admitted",
    "Completed",
    "Event",
    "Evicted",
    "JobSpan",
    "Quarantined",
    "Rejected",
    "Span",
    "Telemetries",
    "Telemetry",
    "WorkerMemory",
    "WorkerSaturation",
]
