"""What may be said of a job besides its kind and payload, as people say it.

A duration is a `timedelta`, or milliseconds under the name with `_ms`; an instant is a datetime
with its time zone, or milliseconds since the epoch under the name with `_ms`.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import IntFlag
from typing import Any, TypedDict

import msgspec

from headgate.client.durations import duration_ms, instant_ms
from headgate.model.envelope import (
    REPLACE_MAX_ATTEMPTS,
    REPLACE_PAYLOAD,
    REPLACE_PRIORITY,
    REPLACE_SCHEDULED_AT,
)
from headgate.model.errors import InvalidRequest


class Replace(IntFlag):
    """What a duplicate changes in the job that holds its unique key."""

    NOTHING = 0
    PAYLOAD = REPLACE_PAYLOAD
    SCHEDULED_AT = REPLACE_SCHEDULED_AT
    PRIORITY = REPLACE_PRIORITY
    MAX_ATTEMPTS = REPLACE_MAX_ATTEMPTS


class Unique(msgspec.Struct, frozen=True):
    """A key that one unfinished job holds at a time, within its kind or, on request, in all kinds.

    `window` makes it a throttle: the key stays taken that long, whatever becomes of the job.
    `debounce` puts the holder's start off by that long with each repetition.
    """

    key: str | bytes
    window: timedelta | None = None
    replace: Replace = Replace.NOTHING
    debounce: timedelta | None = None
    exclude_kind: bool = False


class JobOptions(TypedDict, total=False):
    """What both a task and a single job may say."""

    queue: str
    partition_key: str
    rate_class: str
    weight: int
    priority: int
    max_attempts: int
    timeout: timedelta
    timeout_ms: int
    retention: timedelta
    retention_ms: int
    tags: Sequence[str]


class EnqueueOptions(JobOptions, total=False):
    """What a single job may say; it wins over what its task says."""

    id: str
    fingerprint: str
    delay: timedelta
    delay_ms: int
    scheduled_at: datetime
    scheduled_at_ms: int
    deadline: datetime
    deadline_ms: int
    unique: Unique
    headers: Mapping[str, str]
    pending: bool
    sticky_worker: str


_PLAIN = frozenset(
    {
        "id",
        "queue",
        "partition_key",
        "rate_class",
        "weight",
        "fingerprint",
        "priority",
        "max_attempts",
        "pending",
        "sticky_worker",
    }
)
_DURATIONS = ("timeout", "retention", "delay")
_INSTANTS = ("scheduled_at", "deadline")
_KNOWN = JobOptions.__annotations__.keys() | EnqueueOptions.__annotations__.keys()


def envelope_fields(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options as fields of an `Envelope`.

    Raises `InvalidRequest` for what is contradictory or too short to be a duration, and `TypeError`
    for an option that does not exist.
    """
    unknown = options.keys() - _KNOWN
    if unknown:
        raise TypeError(f"unknown option: {', '.join(sorted(unknown))}")
    fields = {name: options[name] for name in _PLAIN & options.keys()}
    for name in _DURATIONS:
        _put(fields, name, duration_ms(name, options.get(name), options.get(f"{name}_ms")))
    for name in _INSTANTS:
        _put(fields, name, instant_ms(name, options.get(name), options.get(f"{name}_ms")))
    if "delay_ms" in fields and "scheduled_at_ms" in fields:
        raise InvalidRequest("give delay or scheduled_at, not both")
    if "tags" in options:
        fields["tags"] = tuple(options["tags"])
    if "headers" in options:
        fields["headers"] = dict(options["headers"])
    if "unique" in options:
        fields.update(_unique_fields(options["unique"]))
    return fields


def _put(fields: dict[str, Any], name: str, value: int | None) -> None:
    if value is not None:
        fields[f"{name}_ms"] = value


def _unique_fields(unique: Unique) -> dict[str, Any]:
    key = unique.key.encode() if isinstance(unique.key, str) else unique.key
    return {
        "unique_key": key,
        "unique_window_ms": duration_ms("unique window", unique.window) or 0,
        "unique_replace": int(unique.replace),
        "unique_debounce_ms": duration_ms("unique debounce", unique.debounce) or 0,
        "unique_exclude_kind": unique.exclude_kind,
    }
