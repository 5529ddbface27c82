"""Numbers in the text format that Prometheus reads."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


class Gauge(msgspec.Struct):
    """A number that goes up and down, for each combination of labels.

    Labels are queues, states, workers, rate classes: never a job, a fingerprint, a partition or a
    text, of which there is no end.
    """

    name: str
    meaning: str
    samples: list[tuple[Mapping[str, str], float]] = []

    def set(self, value: float, **labels: str) -> None:
        """Adds the sample of these labels."""
        self.samples.append((labels, value))


def render(gauges: Iterable[Gauge]) -> bytes:
    """The gauges as one text; those without a sample are left out."""
    lines: list[str] = []
    for gauge in gauges:
        if gauge.samples:
            lines.append(f"# HELP {gauge.name} {gauge.meaning}")
            lines.append(f"# TYPE {gauge.name} gauge")
            lines += (
                f"{gauge.name}{_labels(labels)} {_number(value)}" for labels, value in gauge.samples
            )
    return ("\n".join(lines) + "\n").encode(errors="replace")


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    pairs = (f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return "{" + ",".join(pairs) + "}"


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return str(int(value)) if float(value).is_integer() else repr(float(value))
