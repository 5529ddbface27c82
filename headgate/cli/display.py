"""How answers look to people: one way for each kind of value, told by the name of its field.

A field that ends in `_at_ms` is an instant, shown on the clock of whoever looks; one that ends in
`_ms` is a duration. So no command says how to show what another one shows too.
"""

import base64
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, TypeAlias

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

Fields: TypeAlias = tuple[str, ...]

_INSTANTS: Final = frozenset(
    {"at_ms", "tick_ms", "next_run_ms", "last_enqueued_ms", "last_success_ms"}
)
_BYTES: Final = frozenset({"bytes", "cursor", "payload", "plaintext"})
_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))

# Where the name of a field says too little or too much above a column.
_HEADERS: Final[Mapping[str, str]] = {
    "coordinator_job_id": "coordinator",
    "count_is_approximate": "approximate",
    "enqueued_at_ms": "enqueued",
    "limit_per_window": "limit",
    "max_unfinished_jobs": "limit",
    "oldest_available_ms": "oldest",
    "partition_key": "partition",
    "unfinished_jobs": "unfinished",
    "workflow_id": "workflow",
    "worker_id": "worker",
    "idempotency_key": "key",
}
_FIRST: Final = ("id", "workflow_id", "name", "queue", "kind", "state", "status")
_STYLES: Final[Mapping[str, str]] = {
    "available": "cyan",
    "running": "blue",
    "completed": "green",
    "retryable": "yellow",
    "archived": "red",
    "failed": "red",
    "quarantined": "red",
    "undecodable": "red",
    "cancelled": "dim",
}


def header(field: str) -> str:
    """What stands above a column, or before a value."""
    if field in _HEADERS:
        return _HEADERS[field]
    for ending in ("_at_ms", "_ms"):
        if field.endswith(ending) and field != ending.lstrip("_"):
            field = field.removesuffix(ending)
            break
    return field.replace("_", " ")


def shown(field: str, value: Any) -> str:
    """A value as people read it."""
    if value is None or value == "" or value == [] or value == {}:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        if field in _INSTANTS or field.endswith("_at_ms"):
            return instant(value)
        return duration(value) if field.endswith("_ms") else str(value)
    if isinstance(value, float):
        return f"{value:.2f}"
    if field in _BYTES:
        return _text(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{header(name)} {shown(name, each)}" for name, each in value.items())
    if isinstance(value, list):
        return ", ".join(shown(field, each) for each in value)
    return str(value)


def _text(encoded: str) -> str:
    """What people can read of base64, or itself."""
    try:
        text = base64.b64decode(encoded, validate=True).decode()
    except ValueError:
        return encoded
    return text if text.isprintable() else encoded


def instant(at_ms: int) -> str:
    """An instant on the clock of whoever looks, to the second."""
    try:
        return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return str(at_ms)


def duration(ms: int) -> str:
    """A duration in its two largest units."""
    if ms < 1_000:
        return f"{ms} ms"
    parts = []
    for size, unit in _UNITS:
        count, ms = divmod(ms, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def table(rows: Iterable[Mapping[str, Any]], fields: Fields) -> RenderableType:
    """A row for each, a column for each of the fields."""
    rows = list(rows)
    if not rows:
        return Text("nothing")
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for field in fields:
        values = [row.get(field) for row in rows]
        numbers = all(isinstance(value, int | float) or value is None for value in values)
        plain = numbers and not field.endswith("_ms") and bool not in map(type, values)
        drawn.add_column(header(field), justify="right" if plain else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(_cell(field, row.get(field)) for field in fields))
    return drawn


def sheet(value: Mapping[str, Any], fields: Fields = ()) -> RenderableType:
    """One thing, a line for each of its fields, or of those that are asked for."""
    drawn = Table(box=None, pad_edge=False, show_header=False)
    drawn.add_column(style="bold", no_wrap=True)
    drawn.add_column(overflow="fold")
    for field in fields or sorted(value, key=_rank):
        drawn.add_row(header(field), _cell(field, value.get(field)))
    return drawn


def _rank(field: str) -> int:
    """What a thing is comes before what else is known of it."""
    return _FIRST.index(field) if field in _FIRST else len(_FIRST)


def _cell(field: str, value: Any) -> Text:
    text = shown(field, value)
    return Text(text, style=_STYLES.get(text, "") if field in ("state", "status") else "")


def console() -> Console:
    """Where answers go: as wide as the terminal, and as wide as it takes without one."""
    out = Console(highlight=False, emoji=False, markup=False)
    if not out.is_terminal:
        out.width = 10_000
    return out
