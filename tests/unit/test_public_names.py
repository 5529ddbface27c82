"""What users import: these names and no others."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import headgate

PUBLIC = {
    "WaitTimeout",
    "Completion",
    "DeathReason",
    "Death",
    "Depends",
    "Data",
    "BatchJob",
    "ApiConfig",
    "BackendError",
    "Backpressure",
    "CircuitBreaker",
    "CircuitOpen",
    "ConcurrencyLimit",
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
    "Worker",
    "WorkerConfig",
    "Workflow",
    "create_app",
    "current_job",
    "end_streams",
    "enqueue_in",
    "enqueue_in_sync",
}


def test_the_public_names_are_these() -> None:
    assert set(headgate.__all__) == PUBLIC
    assert set(dir(headgate)) == PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_each_is_what_its_name_says(name: str) -> None:
    assert getattr(headgate, name).__name__ == name


def test_a_type_checker_sees_the_same_names() -> None:
    module = ast.parse(Path(headgate.__file__).read_text())
    (block,) = [node for node in module.body if isinstance(node, ast.If)]
    imported = {
        alias.name
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported == PUBLIC


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        headgate.Nothing  # noqa: B018


def test_importing_the_package_loads_nothing_else() -> None:
    script = "import sys, headgate; print(sorted(n for n in sys.modules if 'headgate.' in n))"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.strip() == "[]"
