"""A job queue on PostgreSQL in which taking a job is an admission decision.

What stands in `__all__` is public; everything else may change without notice. The names are loaded
when they are first used, so that importing a part of the package does not import all of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.api.access import HostAuthentication
    from headgate.api.application import create_app, end_streams
    from headgate.api.config import ApiConfig
    from headgate.client.application import Headgate
    from headgate.client.authorizer import EnqueueContext
    from headgate.client.batches import BatchJob
    from headgate.client.circuit_breaker import CircuitBreaker
    from headgate.client.completion import Completion, WaitTimeout
    from headgate.client.dependencies import Data, Depends
    from headgate.client.encryption import Keyring, PayloadEncryption
    from headgate.client.errors import NotOpen, RegistrationError
    from headgate.client.failures import Death, DeathReason
    from headgate.client.hooks import EnqueueHook
    from headgate.client.middleware import EnqueueRequest, TraceContextMiddleware
    from headgate.client.options import EnqueueOptions, JobOptions, Replace, Unique
    from headgate.client.pipeline import EnqueuePipeline
    from headgate.client.plugins import EnqueuePlugin
    from headgate.client.task import Task
    from headgate.client.workflow import Workflow
    from headgate.model.access import Identity
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
        MiddlewareError,
        NotFound,
        SchemaIncompatible,
        SchemaMissing,
        StoreError,
        StoreRefused,
        StoreUnavailable,
    )
    from headgate.model.job import Enqueued
    from headgate.model.periodic_hook import PeriodicHook
    from headgate.model.policy import ConcurrencyLimit, RateClassPolicy
    from headgate.model.retention import RetentionPeriods
    from headgate.store.joining import enqueue_in, enqueue_in_sync
    from headgate.store.settings import StoreSettings
    from headgate.store.store import Store
    from headgate.worker.attempt_log import JobLogHandler
    from headgate.worker.config import WorkerConfig
    from headgate.worker.context import JobContext
    from headgate.worker.outcomes import LeaseLost, RateLimited, Retry, Revoke, Skip, Snooze
    from headgate.worker.running import current_job
    from headgate.worker.worker import Worker

_HOMES = {
    "headgate.api.access": ("HostAuthentication",),
    "headgate.api.application": ("create_app", "end_streams"),
    "headgate.api.config": ("ApiConfig",),
    "headgate.client.application": ("Headgate",),
    "headgate.client.authorizer": ("EnqueueContext",),
    "headgate.client.circuit_breaker": ("CircuitBreaker",),
    "headgate.client.encryption": ("Keyring", "PayloadEncryption"),
    "headgate.client.batches": ("BatchJob",),
    "headgate.client.completion": ("Completion", "WaitTimeout"),
    "headgate.client.dependencies": (
        "Data",
        "Depends",
    ),
    "headgate.client.failures": (
        "Death",
        "DeathReason",
    ),
    "headgate.client.errors": ("NotOpen", "RegistrationError"),
    "headgate.client.hooks": ("EnqueueHook",),
    "headgate.client.middleware": ("EnqueueRequest", "TraceContextMiddleware"),
    "headgate.client.options": ("EnqueueOptions", "JobOptions", "Replace", "Unique"),
    "headgate.client.pipeline": ("EnqueuePipeline",),
    "headgate.client.plugins": ("EnqueuePlugin",),
    "headgate.client.task": ("Task",),
    "headgate.client.workflow": ("Workflow",),
    "headgate.model.access": ("Identity",),
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
        "MiddlewareError",
        "NotFound",
        "SchemaIncompatible",
        "SchemaMissing",
        "StoreError",
        "StoreRefused",
        "StoreUnavailable",
    ),
    "headgate.model.job": ("Enqueued",),
    "headgate.model.periodic_hook": ("PeriodicHook",),
    "headgate.model.policy": ("ConcurrencyLimit", "RateClassPolicy"),
    "headgate.model.retention": ("RetentionPeriods",),
    "headgate.store.joining": ("enqueue_in", "enqueue_in_sync"),
    "headgate.store.settings": ("StoreSettings",),
    "headgate.store.store": ("Store",),
    "headgate.worker.config": ("WorkerConfig",),
    "headgate.worker.attempt_log": ("JobLogHandler",),
    "headgate.worker.context": ("JobContext",),
    "headgate.worker.outcomes": ("LeaseLost", "RateLimited", "Retry", "Revoke", "Skip", "Snooze"),
    "headgate.worker.running": ("current_job",),
    "headgate.worker.worker": ("Worker",),
}

__all__ = [
    "ApiConfig",
    "BackendError",
    "Backpressure",
    "BatchJob",
    "CircuitBreaker",
    "CircuitOpen",
    "Completion",
    "ConcurrencyLimit",
    "Data",
    "Death",
    "DeathReason",
    "Depends",
    "DuplicateJob",
    "EnqueueContext",
    "EnqueueForbidden",
    "EnqueueHook",
    "EnqueueOptions",
    "EnqueuePipeline",
    "EnqueuePlugin",
    "EnqueueRequest",
    "Enqueued",
    "Envelope",
    "FingerprintQuarantined",
    "Headgate",
    "HeadgateError",
    "HostAuthentication",
    "IdConflict",
    "Identity",
    "InvalidRequest",
    "JobContext",
    "JobLogHandler",
    "JobOptions",
    "Keyring",
    "LeaseLost",
    "MiddlewareError",
    "NotFound",
    "NotOpen",
    "PayloadEncryption",
    "PeriodicHook",
    "RateClassPolicy",
    "RateLimited",
    "RegistrationError",
    "Replace",
    "RetentionPeriods",
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
    "TraceContextMiddleware",
    "Unique",
    "WaitTimeout",
    "Worker",
    "WorkerConfig",
    "Workflow",
    "create_app",
    "current_job",
    "end_streams",
    "enqueue_in",
    "enqueue_in_sync",
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
