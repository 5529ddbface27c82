"""A job queue on PostgreSQL in which taking a job is an admission decision.

What stands in `__all__` is public; everything else may change without notice. The names are loaded
when they are first used, so that importing a part of the package does not import all of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.client.application import Headgate
    from headgate.client.errors import NotOpen, RegistrationError
    from headgate.client.options import EnqueueOptions, JobOptions, Replace, Unique
    from headgate.client.task import Task
    from headgate.model.envelope import Envelope
    from headgate.model.errors import (
        BackendError,
        Backpressure,
        CircuitOpen,
        DuplicateJob,
        EnqueueForbidden,
        FingerprintQuarantined,
        HeadgateError,
        IdConflict,
        InvalidRequest,
        NotFound,
        SchemaIncompatible,
        SchemaMissing,
        StoreError,
        StoreRefused,
        StoreUnavailable,
    )
    from headgate.model.job import Enqueued
    from headgate.store.settings import StoreSettings
    from headgate.store.store import Store
    from headgate.worker.config import WorkerConfig
    from headgate.worker.context import JobContext
    from headgate.worker.outcomes import LeaseLost, RateLimited, Retry, Revoke, Skip, Snooze
    from headgate.worker.worker import Worker

_HOMES = {
    "headgate.client.application": ("Headgate",),
    "headgate.client.errors": ("NotOpen", "RegistrationError"),
    "headgate.client.options": ("EnqueueOptions", "JobOptions", "Replace", "Unique"),
    "headgate.client.task": ("Task",),
    "headgate.model.envelope": ("Envelope",),
    "headgate.model.errors": (
        "BackendError",
        "Backpressure",
        "CircuitOpen",
        "DuplicateJob",
        "EnqueueForbidden",
        "FingerprintQuarantined",
        "HeadgateError",
        "IdConflict",
        "InvalidRequest",
        "NotFound",
        "SchemaIncompatible",
        "SchemaMissing",
        "StoreError",
        "StoreRefused",
        "StoreUnavailable",
    ),
    "headgate.model.job": ("Enqueued",),
    "headgate.store.settings": ("StoreSettings",),
    "headgate.store.store": ("Store",),
    "headgate.worker.config": ("WorkerConfig",),
    "headgate.worker.context": ("JobContext",),
    "headgate.worker.outcomes": ("LeaseLost", "RateLimited", "Retry", "Revoke", "Skip", "Snooze"),
    "headgate.worker.worker": ("Worker",),
}

__all__ = [
    "BackendError",
    "Backpressure",
    "CircuitOpen",
    "DuplicateJob",
    "EnqueueForbidden",
    "EnqueueOptions",
    "Enqueued",
    "Envelope",
    "FingerprintQuarantined",
    "Headgate",
    "HeadgateError",
    "IdConflict",
    "InvalidRequest",
    "JobContext",
    "JobOptions",
    "LeaseLost",
    "NotFound",
    "NotOpen",
    "RateLimited",
    "RegistrationError",
    "Replace",
    "Retry",
    "Revoke",
    "SchemaIncompatible",
    "SchemaMissing",
    "Skip",
    "Snooze",
    "Store",
    "StoreError",
    "StoreRefused",
    "StoreSettings",
    "StoreUnavailable",
    "Task",
    "Unique",
    "Worker",
    "WorkerConfig",
]

_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    module = _HOME_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
