"""What a handler may know of its attempt, and say about it."""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from headgate.client.durations import duration_ms
from headgate.client.signature import HandlerContext
from headgate.model.errors import InvalidRequest
from headgate.model.job import Claim, Lease, PeriodicOrigin, Stored
from headgate.model.limits import MAX_INT32
from headgate.model.texts import clean

MAX_LOG_LINES: Final = 100
MAX_LOG_BYTES: Final = 2_048
MAX_RESULT_BYTES: Final = 32 * 1_048_576
_LOG_FULL: Final = f"[only the first {MAX_LOG_LINES} lines are kept]"

_encode: Final = msgspec.json.Encoder().encode

Extend = Callable[[int], Awaitable[None]]


class JobContext(HandlerContext):
    """The attempt that a handler is running. Valid until the handler returns."""

    __slots__ = ("_claim", "_extend", "_logs", "_stopped", "actual_weight", "result", "worker_id")

    def __init__(self, claim: Claim, worker_id: str, extend: Extend) -> None:
        self._claim = claim
        self._extend = extend
        self._logs: list[str] = []
        self._stopped = False
        self.worker_id = worker_id
        self.actual_weight: int | None = None
        self.result: Stored | None = None

    @property
    def id(self) -> str:
        return self._claim.job_id

    @property
    def kind(self) -> str:
        """The kind the job was enqueued with, which may be an alias of the task's."""
        return self._claim.kind

    @property
    def queue(self) -> str:
        return self._claim.queue

    @property
    def partition_key(self) -> str:
        return self._claim.partition_key

    @property
    def rate_class(self) -> str:
        return self._claim.rate_class

    @property
    def priority(self) -> int:
        return self._claim.priority

    @property
    def weight(self) -> int:
        return self._claim.weight

    @property
    def attempt(self) -> int:
        """How many attempts of this job failed before; 0 in the first."""
        return self._claim.attempt

    @property
    def crash_attempt(self) -> int:
        """How many attempts lost their worker before."""
        return self._claim.crash_attempt

    @property
    def max_attempts(self) -> int:
        return self._claim.max_attempts

    @property
    def schema_version(self) -> int:
        return self._claim.schema_version

    @property
    def enqueued_at_ms(self) -> int:
        return self._claim.enqueued_at_ms

    @property
    def scheduled_at_ms(self) -> int:
        return self._claim.scheduled_at_ms

    @property
    def deadline_ms(self) -> int:
        """The instant after which the job is not worth running; 0 when there is none."""
        return self._claim.deadline_ms

    @property
    def periodic_origin(self) -> PeriodicOrigin | None:
        """The schedule and the tick that made this job; None when no schedule did."""
        schedule_id = self._claim.periodic_schedule_id
        return PeriodicOrigin(schedule_id, self._claim.periodic_tick_ms) if schedule_id else None

    @property
    def headers(self) -> Mapping[str, str]:
        return MappingProxyType(self._claim.headers)

    @property
    def lease(self) -> Lease:
        """The right under which this attempt runs; its fence grows with every attempt."""
        return self._claim.lease

    @property
    def logs(self) -> tuple[str, ...]:
        """What was logged so far."""
        return tuple(self._logs)

    @property
    def stopped(self) -> bool:
        """Whether this attempt should end: timed out, lease lost, or the worker shuts down.

        An `async` handler is cancelled then. A thread cannot be, so a `def` handler that takes
        long asks for this now and then, and returns.
        """
        return self._stopped

    def stop(self) -> None:
        """Makes `stopped` true. For the worker."""
        self._stopped = True

    def log(self, text: str) -> None:
        """Keeps a line in the history of the job, with how this attempt ends.

        Of an attempt the first 100 lines are kept, of a line the first 2 KiB. Lost when the worker
        dies, and for endings that leave no trace in the history.
        """
        if len(self._logs) < MAX_LOG_LINES:
            self._logs.append(clean(text, MAX_LOG_BYTES))
        elif len(self._logs) == MAX_LOG_LINES:
            self._logs.append(_LOG_FULL)

    def set_result(self, result: Any, *, schema_version: int = 1) -> None:
        """Publishes `result` with the success of this attempt; the last call wins.

        Bytes are kept as they are, anything else as JSON. A value that the handler returns does the
        same. Raises `InvalidRequest` for more than 32 MiB, for what has no JSON form, and for a
        version outside 1-2147483647.
        """
        self.result = stored_result(result, schema_version)

    def report_actual_weight(self, weight: int) -> None:
        """What the job really cost of its rate class; 0 gives everything back. The last call wins.

        Raises `InvalidRequest` below 0 and above 2147483647.
        """
        if not 0 <= weight <= MAX_INT32:
            raise InvalidRequest(f"actual weight must be between 0 and {MAX_INT32}")
        self.actual_weight = weight

    async def extend_lease(self, by_ms: int) -> None:
        """Makes this job's lease last `by_ms` from now, and from then on with every renewal.

        Leases are renewed without asking; this is for a handler that must be alone for longer than
        the worker's lease even if the worker hangs. Raises `LeaseLost`, `StoreUnavailable`, and
        `InvalidRequest` below one millisecond.
        """
        duration_ms("lease", None, by_ms)
        await self._extend(by_ms)


def stored_result(result: Any, schema_version: int = 1) -> Stored:
    """The bytes of a result. Raises `InvalidRequest`."""
    if not 1 <= schema_version <= MAX_INT32:
        raise InvalidRequest(f"result schema version must be between 1 and {MAX_INT32}")
    if isinstance(result, bytes):
        encoded = result
    else:
        try:
            encoded = _encode(result)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise InvalidRequest(f"result is not encodable: {error}") from error
    if len(encoded) > MAX_RESULT_BYTES:
        raise InvalidRequest(f"result must be at most {MAX_RESULT_BYTES} bytes")
    return Stored(schema_version, encoded)
