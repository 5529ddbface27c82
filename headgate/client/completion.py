"""Waiting for a job to end, from the process that has enqueued it."""

import asyncio
import random
import time
from typing import Any, Final

import msgspec

from headgate.model.errors import HeadgateError
from headgate.model.job import Job, Stored
from headgate.model.lifecycle import DELETED, TERMINAL
from headgate.store.store import Store

RETENTION_MS: Final = 60_000
"""How long a job that is waited for is kept at least, so that its result can still be read."""

_FIRST_LOOK_MS: Final = 5.0
_LAST_LOOK_MS: Final = 100.0


class WaitTimeout(HeadgateError):
    """The job has not ended in time. It goes on."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"job {job_id} has not ended in time")
        self.job_id = job_id


class Completion(msgspec.Struct, frozen=True):
    """How a job ended: `state`, which is `deleted` when its row is gone, and what it left.

    `error` is the last error text of a job that did not succeed.
    """

    job_id: str
    state: str
    result: Stored | None = None
    error: str | None = None

    @property
    def succeeded(self) -> bool:
        return self.state == "completed"

    def value(self, type: Any = Any) -> Any:
        """The result from its JSON, as a value of `type`; None when there is none.

        Raises `msgspec.DecodeError` for a result that is no JSON of this type.
        """
        return None if self.result is None else msgspec.json.decode(self.result.bytes, type=type)


async def wait(store: Store, job_id: str, wait_ms: int) -> Completion:
    """Looks at the job until it has ended, twenty times a second at most after the first moments.

    A job that is not there counts as deleted. Raises `WaitTimeout` and `StoreUnavailable`.
    """
    end = time.monotonic() + wait_ms / 1000
    pause_ms = _FIRST_LOOK_MS
    while True:
        job = await store.inspection.job(job_id)
        if job is None:
            return Completion(job_id, DELETED)
        if job.state in TERMINAL:
            return await _completion(store, job)
        left_ms = (end - time.monotonic()) * 1000
        if left_ms <= 0:
            raise WaitTimeout(job_id)
        # Many that wait for the same moment must not look at the same moment.
        await asyncio.sleep(min(left_ms, pause_ms * random.uniform(0.75, 1.25)) / 1000)
        pause_ms = min(pause_ms * 1.5, _LAST_LOOK_MS)


async def _completion(store: Store, job: Job) -> Completion:
    if job.state == "completed":
        return Completion(job.id, job.state, await store.artifacts.result(job.id))
    error = job.errors[-1].get("error") if job.errors else None
    return Completion(job.id, job.state, error=error)
