"""How one worker behaves: values, judged once when they are made.

What concerns the whole fleet (rates, ceilings, weights, pauses) is no worker's business: it lives
in the store, where the gate reads it.
"""

import os
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Self

import msgspec

from headgate.model.errors import InvalidRequest
from headgate.model.limits import MAX_INT32, MAX_NAME_BYTES, check_name
from headgate.model.retention import RetentionPeriods

_MIN_LEASE_MS: Final = 100
_NUMBERS: Final = (
    "concurrency",
    "lease_ms",
    "shutdown_timeout_ms",
    "threads",
    "processes",
    "memory_limit_bytes",
)


class WorkerConfig(msgspec.Struct, kw_only=True, frozen=True):
    """The settings of a `Worker`. Raises `InvalidRequest` for what makes no sense.

    - `queues`: where to take jobs from; by default `app.queues`, those of its tasks, its schedules
      and its workflows, as they are when the worker is made.
    - `concurrency`: how many handlers run at a time.
    - `lease_ms`: how long a job stays with a worker that says nothing; renewed every third of it.
    - `poll_floor_ms`, `poll_ceiling_ms`, `poll_multiplier`, `poll_jitter`: the delays between polls
      that find nothing. Wake-ups come on top of them.
    - `prefetch_ms`: jobs are taken ahead that will start within this time at the rate measured, and
      hardly ever more than `concurrency` of them; 0 takes none ahead.
    - `shutdown_timeout_ms`: how long the first signal to end waits for running handlers.
    - `shutdown_grace_ms`: how long a handler that was cancelled then has to clean up.
    - `threads`: how many `def` handlers run at a time; 0 means as many as `concurrency`.
    - `processes`: how many handlers run in processes at a time; 0 means one per processor.
    - `stuck_after_ms`: when to complain of a handler that still runs after it was told to end.
    - `memory_limit_bytes`: how large the process may grow before it drains and ends, to be started
      anew; looked at every `memory_check_ms`. 0 is no limit.
    - `duties`: whether this worker takes part in reclaiming, promoting, scheduling and counting.
    - `retention`: how long its duties keep what has ended. All workers of an installation should
      say the same: whoever has the duty goes by its own.
    - `sync_schedules`: whether it makes the schedules of its application known when it starts;
      with `prune_schedules` it also removes those that are not declared any more.
    - `worker_id`: who it is; "" makes one up. Jobs can be pinned to it.
    """

    queues: tuple[str, ...] = ()
    concurrency: int = 16
    lease_ms: int = 30_000
    poll_floor_ms: int = 50
    poll_ceiling_ms: int = 2_000
    poll_multiplier: float = 2.0
    poll_jitter: float = 0.2
    prefetch_ms: int = 100
    shutdown_timeout_ms: int = 25_000
    shutdown_grace_ms: int = 2_000
    threads: int = 0
    processes: int = 0
    stuck_after_ms: int = 10_000
    memory_limit_bytes: int = 0
    memory_check_ms: int = 30_000
    duties: bool = True
    retention: RetentionPeriods = RetentionPeriods()
    sync_schedules: bool = True
    prune_schedules: bool = False
    worker_id: str = ""

    def __post_init__(self) -> None:
        for queue in self.queues:
            if not queue:
                raise InvalidRequest("a queue must not be empty")
            check_name("queue", queue)
        if len(set(self.queues)) != len(self.queues):
            raise InvalidRequest("queues must not contain duplicates")
        self._at_least("concurrency", 1)
        self._at_least("lease_ms", _MIN_LEASE_MS)
        self._at_least("poll_floor_ms", 1)
        self._at_least("poll_ceiling_ms", self.poll_floor_ms)
        self._at_least("prefetch_ms", 0)
        self._at_least("shutdown_timeout_ms", 0)
        self._at_least("shutdown_grace_ms", 0)
        self._at_least("threads", 0)
        self._at_least("processes", 0)
        self._at_least("stuck_after_ms", 1)
        self._at_least("memory_check_ms", 1)
        if self.memory_limit_bytes < 0:
            raise InvalidRequest("memory_limit_bytes must be >= 0")
        if self.poll_multiplier < 1:
            raise InvalidRequest("poll_multiplier must be >= 1")
        if not 0 <= self.poll_jitter <= 1:
            raise InvalidRequest("poll_jitter must be between 0 and 1")
        check_name("worker_id", self.worker_id)
        if not self.worker_id.isascii():
            raise InvalidRequest(f"worker_id must be at most {MAX_NAME_BYTES} ASCII bytes")

    def _at_least(self, name: str, minimum: int) -> None:
        value = getattr(self, name)
        if not minimum <= value <= MAX_INT32:
            raise InvalidRequest(f"{name} must be between {minimum} and {MAX_INT32}")

    @classmethod
    def from_environment(
        cls,
        environment: Mapping[str, str] = os.environ,
        *,
        given: Mapping[str, Any] = MappingProxyType({}),
    ) -> Self:
        """What is `given`, and for the rest the variables `HEADGATE_QUEUES` (separated by commas),
        `HEADGATE_CONCURRENCY`, `HEADGATE_LEASE_MS`, `HEADGATE_SHUTDOWN_TIMEOUT_MS`,
        `HEADGATE_THREADS`, `HEADGATE_PROCESSES`, `HEADGATE_MEMORY_LIMIT_BYTES`,
        `HEADGATE_WORKER_ID`, and `HEADGATE_KEEP_DEAD_LETTERS_MS` and its like, one for each of
        `RetentionPeriods`.
        """
        read = _numbers(environment, "HEADGATE_", _NUMBERS)
        periods = _numbers(environment, "HEADGATE_KEEP_", RetentionPeriods.__struct_fields__)
        if periods:
            read["retention"] = RetentionPeriods(**periods)
        if queues := environment.get("HEADGATE_QUEUES"):
            read["queues"] = tuple(name.strip() for name in queues.split(","))
        if worker_id := environment.get("HEADGATE_WORKER_ID"):
            read["worker_id"] = worker_id
        return cls(**{**read, **given})


def _numbers(environment: Mapping[str, str], prefix: str, names: Iterable[str]) -> dict[str, Any]:
    """What the variables of these names say, where they are set."""
    read = {}
    for name in names:
        variable = f"{prefix}{name.upper()}"
        if (value := environment.get(variable)) is not None:
            if not (value.isascii() and value.isdigit()):
                raise InvalidRequest(f"{variable} is not a number")
            read[name] = int(value)
    return read
