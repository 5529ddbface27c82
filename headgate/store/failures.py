"""What a failure of the driver means to Headgate: one place that tells outage from fault."""

import ssl

import asyncpg

from headgate.model.errors import (
    BackendError,
    SchemaMissing,
    StoreError,
    StoreRefused,
    StoreUnavailable,
)


class RowRefused(BackendError):
    """A row cannot be written as asked: a constraint, its data or somebody's trigger forbids it.

    Nothing was written of the statement, and the same will happen again.
    """


class KeyTaken(RowRefused):
    """A unique key was taken by a concurrent transaction; the statement wrote nothing.

    It never leaves the store: whoever provokes it looks again and finds the holder.
    """


# A repetition of the same statement or transaction can succeed at once. The last one comes when a
# migration changed a column under a prepared statement; the driver prepares it anew.
RETRYABLE = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.InvalidCachedStatementError,
)

DRIVER_FAILURES = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
    EOFError,
)
"""What the driver may raise. Everything else is a fault of ours and passes as it is."""

_REFUSED = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
)

_ROW_REFUSED = (
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.DataError,
    asyncpg.RaiseError,
)

_UNAVAILABLE = (
    asyncpg.PostgresConnectionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.OperatorInterventionError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    ConnectionError,
    TimeoutError,
    EOFError,
    ssl.SSLError,
    OSError,
)


def store_error(failure: BaseException) -> StoreError:
    """The typed error for what the driver raised; the driver's own words stay in its cause.

    A read-only server is a standby in the middle of a failover, and a full disk is emptied by
    somebody: waiting cures them, and nothing that was to be written is given up.
    """
    if isinstance(failure, _REFUSED):
        return StoreRefused(f"access refused: {_first_line(failure)}")
    if isinstance(failure, asyncpg.ClientConfigurationError):
        return StoreRefused(f"bad conninfo: {_first_line(failure)}")
    if isinstance(failure, asyncpg.QueryCanceledError):
        return StoreUnavailable("statement timed out")
    if isinstance(failure, asyncpg.LockNotAvailableError):
        return StoreUnavailable("lock timed out")
    if isinstance(failure, RETRYABLE):
        return StoreUnavailable("kept losing against concurrent transactions; try again")
    if isinstance(failure, _UNAVAILABLE):
        return StoreUnavailable(f"no connection: {_first_line(failure) or 'timed out'}")
    if isinstance(failure, asyncpg.InterfaceError | asyncpg.InternalClientError):
        # The driver raises the first for a pool or connection that closed under the call, and the
        # second for an idle connection while it reads that the server has ended the session.
        return StoreUnavailable(f"no connection: {_first_line(failure)}")
    if isinstance(failure, asyncpg.UniqueViolationError):
        return KeyTaken(_first_line(failure))
    if isinstance(failure, _ROW_REFUSED):
        return RowRefused(_first_line(failure) or type(failure).__name__)
    if isinstance(failure, asyncpg.UndefinedTableError | asyncpg.InvalidSchemaNameError):
        return SchemaMissing("the database has no schema of Headgate; run `headgate migrate up`")
    return BackendError(_first_line(failure) or type(failure).__name__)


def _first_line(failure: BaseException) -> str:
    return str(failure).split("\n", 1)[0]
