"""Running what is enqueued to its end, in the test's own process and event loop."""

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.client.application import Headgate
from headgate.client.task import Task
from headgate.duties.outage import OutageLog
from headgate.model.errors import InvalidRequest
from headgate.model.job import Acknowledgement
from headgate.model.lifecycle import Outcome
from headgate.model.limits import check_name
from headgate.store.store import Store
from headgate.testing.moving import move_job
from headgate.worker.acknowledgements import Acknowledgements
from headgate.worker.attempt import Attempt
from headgate.worker.config import WorkerConfig
from headgate.worker.coordinator import serve_workflows
from headgate.worker.custody import Custody, logger
from headgate.worker.deaths import Deaths
from headgate.worker.places import HandlerPlaces
from headgate.worker.slots import Slots

# Nothing renews here, so a lease must outlive every handler of a test.
_LEASE_MS: Final = 3_600_000
_PROMOTED: Final = 1_000


class Performed(msgspec.Struct, frozen=True):
    """One attempt that was run: how it ended, and the bytes of its result if it has one."""

    job_id: str
    kind: str
    attempt: int
    outcome: Outcome
    error: str | None
    result: bytes | None


async def drain(
    app: Headgate,
    store: Store,
    *,
    queues: Sequence[str] | None = None,
    limit: int = 1_000,
    concurrency: int = 10,
) -> list[Performed]:
    """Admits and runs the jobs of these queues until the gate gives no more, or `limit` attempts.

    Without `queues` it is those that a worker serves: `app.queues`, of its tasks, its schedules and
    its workflows. A job that was enqueued to another one stays there until that is named.

    Everything is real: the gate with all policies, the handlers, the reports to the store. What is
    due is promoted first; a job that comes back with a delay stays where it is until
    `headgate.testing.advance_time`. Answers with the attempts in the order of their ends.
    """
    return await _Drain(app, store, app.queues if queues is None else queues, concurrency).run(
        limit
    )


async def perform(
    task: Task[Any],
    store: Store,
    payload: Any = None,
    *,
    queue: str | None = None,
    **options: Any,
) -> Performed:
    """Enqueues one job of `task`, with the options of `Task.enqueue`, and runs one attempt of it.

    For this attempt it has a queue of its own, so no other job is touched, and neither a pause nor
    a concurrency limit stands in its way. What comes back, or is kept, is then in `queue`, by
    default that of the task, where `drain` goes on with it. Raises `InvalidRequest` when the gate
    does not admit it, as for a job that is not due yet.
    """
    home = task.queue if queue is None else queue
    check_name("queue", home)
    app = task.app
    app.bind(store)
    own = f"perform-{secrets.token_hex(4)}"
    enqueued = await task.enqueue(payload, queue=own, **options)
    performed = await drain(app, store, queues=(own,), limit=1)
    await move_job(store, enqueued.id, home)
    if not performed:
        raise InvalidRequest(f"job {enqueued.id} was not admitted")
    return performed[0]


class _Drain:
    """A worker without loops: every step is taken by the test."""

    def __init__(
        self, app: Headgate, store: Store, queues: Sequence[str], concurrency: int
    ) -> None:
        self._store = store
        self._worker_id = f"test-{secrets.token_hex(4)}"
        self._config = WorkerConfig(
            queues=tuple(queues), concurrency=concurrency, lease_ms=_LEASE_MS, duties=False
        )
        self._performed: list[Performed] = []
        self._all_settled = asyncio.Event()
        self._slots = Slots(self._config)
        self._places = HandlerPlaces(app, self._config)
        self._deaths = Deaths(app.death_handlers)
        self._acknowledgements = Acknowledgements(
            store,
            settled=self._settled,
            outage=OutageLog(logger),
        )
        serve_workflows(app)
        app.bind(store)
        self._custody = Custody(
            store,
            worker_id=self._worker_id,
            places=self._places,
            lease_ms=_LEASE_MS,
            slots=self._slots,
            acknowledgements=self._acknowledgements,
            unreported=lambda attempt: self._settled(attempt, None),
        )

    async def run(self, limit: int) -> list[Performed]:
        reporting = asyncio.create_task(self._acknowledgements.run())
        try:
            while len(self._performed) < limit:
                await self._store.upkeep.promote_due(_PROMOTED)
                asked = min(self._config.concurrency, limit - len(self._performed))
                claims = await self._store.gate.admit(
                    self._worker_id, self._config.queues, asked, _LEASE_MS
                )
                if not claims:
                    break
                self._all_settled.clear()
                self._custody.take(claims)
                settling = asyncio.create_task(self._all_settled.wait())
                await asyncio.wait((settling, reporting), return_when=asyncio.FIRST_COMPLETED)
                settling.cancel()
                if reporting.done():
                    await reporting
        finally:
            self._acknowledgements.close()
            await reporting
            await self._deaths.finish(_LEASE_MS)
            await self._places.close()
        return self._performed

    def _settled(self, attempt: Attempt, state: str | None) -> None:
        self._slots.settled(attempt)
        if state is not None and attempt.report is not None:
            self._deaths.settled(attempt.claim, attempt.report, state)
        self._performed.append(_performed(attempt, attempt.report))
        if not self._slots.held:
            self._all_settled.set()


def _performed(attempt: Attempt, report: Acknowledgement | None) -> Performed:
    claim = attempt.claim
    facts: Mapping[str, Any] = {
        "job_id": claim.job_id,
        "kind": claim.kind,
        "attempt": claim.attempt,
    }
    if report is None:
        # Its handler ended the job, or gave it back, in a transaction of its own.
        return Performed(**facts, outcome=Outcome(attempt.outcome), error=None, result=None)
    result = None if report.result is None else report.result.bytes
    return Performed(**facts, outcome=report.outcome, error=report.error, result=result)
