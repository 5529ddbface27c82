"""What each failure of the driver means: outage, refusal, missing schema, or a fault."""

import asyncio
import socket
import ssl

import asyncpg
import pytest

from headgate.model.errors import (
    SchemaMissing,
    StoreError,
    StoreRefused,
    StoreUnavailable,
)
from headgate.store.failures import DRIVER_FAILURES, RETRYABLE, KeyTaken, RowRefused, store_error

OUTAGES: list[BaseException] = [
    asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"),
    asyncpg.ConnectionFailureError("broken"),
    asyncpg.CannotConnectNowError("the database system is starting up"),
    asyncpg.TooManyConnectionsError("sorry, too many clients already"),
    asyncpg.DiskFullError("could not extend file: No space left on device"),
    asyncpg.OutOfMemoryError("out of memory"),
    asyncpg.AdminShutdownError("terminating connection due to administrator command"),
    asyncpg.CrashShutdownError("terminating connection because of crash"),
    asyncpg.IdleInTransactionSessionTimeoutError("terminating connection"),
    asyncpg.IdleSessionTimeoutError("terminating connection"),
    asyncpg.ReadOnlySQLTransactionError("cannot execute INSERT in a read-only transaction"),
    asyncpg.InterfaceError("connection is closed"),
    asyncpg.InternalClientError("got result for unknown protocol state"),
    ConnectionRefusedError(111, "Connect call failed"),
    ConnectionResetError(),
    socket.gaierror("Name or service not known"),
    OSError("Network is unreachable"),
    ssl.SSLError("handshake failed"),
    TimeoutError(),
    asyncio.IncompleteReadError(b"", 4),
]


@pytest.mark.parametrize("failure", OUTAGES, ids=lambda failure: type(failure).__name__)
def test_an_outage_is_unavailable(failure: BaseException) -> None:
    assert isinstance(failure, DRIVER_FAILURES)
    error = store_error(failure)
    assert type(error) is StoreUnavailable
    assert str(error).startswith("store unavailable: no connection: ")
    assert len(str(error)) > len("store unavailable: no connection: ")


@pytest.mark.parametrize(
    ("failure", "error_type", "text"),
    [
        (
            asyncpg.QueryCanceledError("canceling statement due to statement timeout"),
            StoreUnavailable,
            "store unavailable: statement timed out",
        ),
        (
            asyncpg.LockNotAvailableError("canceling statement due to lock timeout"),
            StoreUnavailable,
            "store unavailable: lock timed out",
        ),
        (
            asyncpg.InvalidPasswordError('password authentication failed for user "a"'),
            StoreRefused,
            'store unavailable: access refused: password authentication failed for user "a"',
        ),
        (
            asyncpg.InvalidAuthorizationSpecificationError('role "a" does not exist'),
            StoreRefused,
            'store unavailable: access refused: role "a" does not exist',
        ),
        (
            asyncpg.InvalidCatalogNameError('database "a" does not exist'),
            StoreRefused,
            'store unavailable: access refused: database "a" does not exist',
        ),
        (
            asyncpg.ClientConfigurationError("bad port"),
            StoreRefused,
            "store unavailable: bad conninfo: bad port",
        ),
        (
            asyncpg.UndefinedTableError('relation "headgate_job" does not exist'),
            SchemaMissing,
            "the database has no schema of Headgate; run `headgate migrate up`",
        ),
        (
            asyncpg.InvalidSchemaNameError('schema "a" does not exist'),
            SchemaMissing,
            "the database has no schema of Headgate; run `headgate migrate up`",
        ),
        (
            asyncpg.UniqueViolationError("duplicate key\nDETAIL: secret"),
            KeyTaken,
            "duplicate key",
        ),
        (asyncpg.DataError("value out of int64 range"), RowRefused, "value out of int64 range"),
        (asyncpg.CheckViolationError("violates check"), RowRefused, "violates check"),
        (asyncpg.DivisionByZeroError(""), RowRefused, "DivisionByZeroError"),
    ],
)
def test_the_others_are_told_apart(
    failure: BaseException, error_type: type[StoreError], text: str
) -> None:
    error = store_error(failure)
    assert type(error) is error_type
    assert str(error) == text


@pytest.mark.parametrize("failure_type", RETRYABLE)
def test_races_that_were_lost_too_often_may_be_tried_again(
    failure_type: type[BaseException],
) -> None:
    error = store_error(failure_type("lost"))
    assert type(error) is StoreUnavailable
    assert "kept losing against concurrent transactions" in str(error)


def test_a_fault_of_ours_passes() -> None:
    for fault in (KeyError("x"), ValueError(), asyncio.CancelledError(), StoreError()):
        assert not isinstance(fault, DRIVER_FAILURES)
