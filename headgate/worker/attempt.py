"""One attempt of one job: from its claim to the report of how it ended.

An attempt is stopped for one reason at most, and then reported by that reason, whatever its
handler makes of the cancellation. It ends once: nothing can stop it after it has ended.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import Any, Final

from headgate.client.payloads import UndecodablePayload
from headgate.client.task import Task
from headgate.model.job import Acknowledgement, Claim, Stored
from headgate.model.lifecycle import Outcome
from headgate.worker.context import JobContext, stored_result
from headgate.worker.failures import failure_text, is_panic
from headgate.worker.outcomes import (
    ControlFlow,
    LeaseLost,
    RateLimited,
    Retry,
    Revoke,
    Skip,
    Snooze,
)
from headgate.worker.threads import HandlerThreads

NO_HANDLER: Final = "no handler registered"
NO_HANDLER_SNOOZE_MS: Final = 30_000
DEADLINE_EXCEEDED: Final = "deadline exceeded"
RELEASED: Final = "released: worker shutdown"

logger = logging.getLogger("headgate.worker")


class Stop(Enum):
    """Why an attempt is told to end."""

    TIMEOUT = "timeout"
    DEADLINE = "deadline"
    LEASE_LOST = "lease lost"
    RELEASED = "released"


class Workbench:
    """What all attempts of a worker share."""

    def __init__(
        self,
        *,
        worker_id: str,
        tasks: Mapping[str, Task[Any]],
        threads: HandlerThreads,
        extend: Callable[["Attempt", int], Awaitable[None]],
        ended: Callable[["Attempt", Acknowledgement | None], None],
    ) -> None:
        self.worker_id = worker_id
        self.tasks = tasks
        self.threads = threads
        self.extend = extend
        self.ended = ended
        # Kinds that were complained about already.
        self.unknown_kinds: set[str] = set()


class Attempt:
    """The run of one claim."""

    __slots__ = (
        "_bench",
        "_context",
        "_entered",
        "_limit_ms",
        "_stop",
        "_task",
        "_threaded",
        "claim",
        "ended",
        "lease",
        "lease_ms",
        "report",
        "taken_at",
    )

    def __init__(self, claim: Claim, bench: Workbench, lease_ms: int) -> None:
        self.claim = claim
        self.lease = claim.lease
        self.lease_ms = lease_ms
        self.taken_at = time.monotonic()
        self.ended = False
        self.report: Acknowledgement | None = None
        self._bench = bench
        self._context: JobContext | None = None
        self._entered = False
        self._limit_ms = 0
        self._stop: Stop | None = None
        self._task: asyncio.Task[None] | None = None
        self._threaded = False

    @property
    def started(self) -> bool:
        return self._task is not None

    def start(self) -> None:
        """Begins to run on the current event loop."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self, reason: Stop) -> None:
        """Tells the attempt to end. The first reason counts; without effect when it has ended.

        A handler in a thread is only told: the attempt goes on until it returns, so that no other
        attempt of the job begins beside it.
        """
        if self.ended or self._stop is not None:
            return
        self._stop = reason
        if self._context is not None:
            self._context.stop()
        # Cancelled before its first step, a task never enters its coroutine; that looks by itself.
        if self._task is not None and self._entered and not self._threaded:
            self._task.cancel()

    def abandon(self, reason: Stop) -> None:
        """Ends the attempt now, though its handler may still be running somewhere."""
        if self.ended:
            return
        self.stop(reason)
        if self._task is not None:
            self._task.cancel()
        self._end(self._report_stop(self._stop or reason))

    async def _run(self) -> None:
        self._entered = True
        report = None
        if self._stop is None:
            try:
                report = await self._perform()
            except BaseException as raised:
                # Whatever it is, it ends this attempt and nothing else.
                if self._stop is None:
                    report = self._classify(raised)
        if self._stop is not None:
            report = self._report_stop(self._stop)
        self._end(report)

    def _end(self, report: Acknowledgement | None) -> None:
        if not self.ended:
            self.report = report
            self.ended = True
            # It refers back to this attempt; a cycle per job is work for the garbage collector.
            self._context = None
            self._bench.ended(self, report)

    async def _perform(self) -> Acknowledgement | None:
        claim = self.claim
        task = self._bench.tasks.get(claim.kind)
        if task is None:
            return self._report_unknown_kind()
        timer = None
        if claim.timeout_ms or claim.deadline_ms:
            self._limit_ms, reason = self._limit()
            if self._limit_ms <= 0:
                return self._report(Outcome.SKIP, error=DEADLINE_EXCEEDED)
            loop = asyncio.get_running_loop()
            timer = loop.call_later(self._limit_ms / 1000, self.stop, reason)
        try:
            payload = task.decode(claim.payload, claim.schema_version)
            signature = task.signature
            if signature.takes_context:
                self._context = JobContext(claim, self._bench.worker_id, self._extend)
            if signature.is_async:
                returned = await task.invoke(self._context, payload)
            else:
                returned = await self._call_in_thread(task, payload)
        finally:
            if timer is not None:
                timer.cancel()
        return self._classify_return(returned)

    async def _call_in_thread(self, task: Task[Any], payload: Any) -> Any:
        self._threaded = True
        answer = self._bench.threads.submit(task.invoke, self._context, payload)
        returned, raised = await answer
        if raised is not None:
            raise raised
        return returned

    def _limit(self) -> tuple[int, Stop]:
        """How long this attempt may run, and what it is that ends then.

        The deadline is an instant of the database's clock; the claim says what that clock showed.
        """
        claim = self.claim
        waited_ms = int((time.monotonic() - self.taken_at) * 1000)
        left_ms = claim.deadline_ms - claim.claimed_at_ms - waited_ms
        if not claim.deadline_ms or 0 < claim.timeout_ms < left_ms:
            return claim.timeout_ms, Stop.TIMEOUT
        return left_ms, Stop.DEADLINE

    async def _extend(self, by_ms: int) -> None:
        await self._bench.extend(self, by_ms)

    def _classify_return(self, returned: Any) -> Acknowledgement | None:
        if isinstance(returned, ControlFlow):
            return self._classify_control_flow(returned)
        result = None
        if returned is not None:
            result = stored_result(returned)
        elif self._context is not None:
            result = self._context.result
        return self._report(Outcome.SUCCESS, result=result)

    def _classify(self, raised: BaseException) -> Acknowledgement | None:
        raised = _only_cause(raised)
        if isinstance(raised, ControlFlow):
            return self._classify_control_flow(raised)
        if isinstance(raised, UndecodablePayload):
            logger.warning("job %s (%s): %s", self.claim.job_id, self.claim.kind, raised)
            return self._report(Outcome.UNDECODABLE, error=str(raised))
        text = failure_text(raised)
        level = logging.ERROR if is_panic(raised) else logging.INFO
        logger.log(level, "job %s (%s) failed: %s", self.claim.job_id, self.claim.kind, text)
        return self._report(Outcome.RETRY, error=text)

    def _classify_control_flow(self, flow: ControlFlow) -> Acknowledgement | None:
        match flow:
            case Snooze(delay_ms=delay_ms):
                return self._report(Outcome.SNOOZE, delay_ms=delay_ms)
            case Retry(reason=reason, delay_ms=delay_ms):
                return self._report(Outcome.RETRY, error=reason, delay_ms=delay_ms)
            case Skip(reason=reason):
                return self._report(Outcome.SKIP, error=reason)
            case Revoke():
                return self._report(Outcome.REVOKE)
            case RateLimited(delay_ms=delay_ms):
                return self._report(Outcome.RATE_LIMITED, delay_ms=delay_ms)
            case LeaseLost():
                return None
            case _:
                return self._report(Outcome.RETRY, error=failure_text(flow))

    def _report_stop(self, reason: Stop) -> Acknowledgement | None:
        match reason:
            case Stop.LEASE_LOST:
                return None
            case Stop.RELEASED:
                return self._report(Outcome.RATE_LIMITED, error=RELEASED)
            case Stop.DEADLINE:
                return self._report(Outcome.SKIP, error=DEADLINE_EXCEEDED)
            case Stop.TIMEOUT:
                return self._report(
                    Outcome.RETRY, error=f"attempt timed out after {self._limit_ms} ms"
                )

    def _report_unknown_kind(self) -> Acknowledgement:
        kind = self.claim.kind
        if kind not in self._bench.unknown_kinds:
            self._bench.unknown_kinds.add(kind)
            logger.warning("no handler registered for kind %s; its jobs wait", kind)
        return self._report(Outcome.SNOOZE, error=NO_HANDLER, delay_ms=NO_HANDLER_SNOOZE_MS)

    def _report(
        self,
        outcome: Outcome,
        *,
        error: str | None = None,
        delay_ms: int | None = None,
        result: Stored | None = None,
    ) -> Acknowledgement:
        context = self._context
        return Acknowledgement(
            lease=self.lease,
            outcome=outcome,
            error=error,
            delay_ms=delay_ms,
            logs=() if context is None else context.logs,
            actual_weight=None if context is None else context.actual_weight,
            result=result,
        )


def _only_cause(raised: BaseException) -> BaseException:
    """What a task group wrapped, when it wrapped one thing: it may be a way to end the attempt."""
    while isinstance(raised, BaseExceptionGroup) and len(raised.exceptions) == 1:
        raised = raised.exceptions[0]
    return raised
