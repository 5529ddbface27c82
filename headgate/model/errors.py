"""What can go wrong, as types that a caller can catch and an operator can read.

Every error of Headgate derives from `HeadgateError`. Those that the store answers with carry the
facts as attributes and say the same in their text; the control API maps each to one status.
"""


class HeadgateError(Exception):
    """The root of every error that Headgate raises on purpose."""


class StoreError(HeadgateError):
    """An answer of the store other than success."""


class DuplicateJob(StoreError):
    """The unique key is held by another job.

    `existing_id` names the holder. `replaced` is true when the holder was changed as the enqueue
    asked (replacement or debounce) and that change is kept. `key` is the effective key, where an
    enqueue was refused for it.
    """

    def __init__(
        self, existing_id: str, *, replaced: bool = False, key: bytes | None = None
    ) -> None:
        super().__init__(f"duplicate unique key; existing job {existing_id}")
        self.existing_id = existing_id
        self.replaced = replaced
        self.key = key


class IdConflict(StoreError):
    """The job id exists with another kind, fingerprint or queue, or stands twice in a batch."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"id conflict: job {job_id}")
        self.job_id = job_id


class Conflict(StoreError):
    """Something else has the place already; `message` names both."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class FingerprintQuarantined(StoreError):
    """Jobs of this fingerprint killed their workers too often; new ones are refused."""

    def __init__(self, fingerprint: str) -> None:
        super().__init__(f"fingerprint {fingerprint} is quarantined")
        self.fingerprint = fingerprint


class Backpressure(StoreError):
    """The queue holds as many unfinished jobs as its limit allows; nothing was written."""

    def __init__(self, queue: str, *, limit: int, current: int, incoming: int) -> None:
        super().__init__(
            f"enqueue backpressure: queue {queue} has {current} unfinished jobs,"
            f" limit {limit}, incoming {incoming}"
        )
        self.queue = queue
        self.limit = limit
        self.current = current
        self.incoming = incoming


class LeaseRejected(StoreError):
    """The lease is no longer held: another owner, another fence, or the job is not running."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"lease no longer held for job {job_id}; stop work immediately")
        self.job_id = job_id


class StoreUnavailable(StoreError):
    """PostgreSQL cannot be reached now; waiting may cure it. Nothing is kept in memory."""

    def __init__(self, message: str) -> None:
        super().__init__(f"store unavailable: {message}")
        self.message = message


class StoreRefused(StoreUnavailable):
    """PostgreSQL answers but not to these credentials, or not for this database.

    A process that starts up ends with it; one that serves already treats it as an outage, since a
    password may be changed under it.
    """


class NotFound(StoreError):
    """The thing that was named does not exist."""

    def __init__(self, message: str) -> None:
        super().__init__(f"not found: {message}")
        self.message = message


class InvalidRequest(StoreError):
    """The request can never succeed as it is; `message` names the field."""

    def __init__(self, message: str) -> None:
        super().__init__(f"invalid request: {message}")
        self.message = message


class RequestInProgress(StoreError):
    """Another request with this idempotency key is being carried out; its answer is not known yet.

    Nothing was done. A repetition gets the answer once there is one.
    """

    def __init__(self) -> None:
        super().__init__("a request with this idempotency key is in progress")


class RequestKeyReused(StoreError):
    """The idempotency key was used on the same route for something else; nothing was done."""

    def __init__(self) -> None:
        super().__init__("idempotency key was used with a different request")


class BackendError(StoreError):
    """PostgreSQL refused a statement of ours for a reason that is not the caller's."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class SchemaMissing(StoreError):
    """The database has no schema of Headgate, or an older one than this code needs."""


class SchemaIncompatible(StoreError):
    """The database was migrated past what this code can work with."""


class EnqueueForbidden(HeadgateError):
    """The authorizer denied an enqueue of this kind; the store was not asked."""

    def __init__(self, kind: str) -> None:
        super().__init__("enqueue forbidden")
        self.kind = kind


class CircuitOpen(HeadgateError):
    """The enqueue circuit breaker is open; the store was not asked."""

    def __init__(self, state: str, *, retry_after_ms: int) -> None:
        super().__init__("enqueue circuit open")
        self.state = state
        self.retry_after_ms = retry_after_ms


class MiddlewareError(HeadgateError):
    """A middleware turned an enqueue down; the text is for the caller."""
