"""One attempt of one job: from its claim to the report of how it ended.

An attempt is stopped for one reason at most, and then reported by that reason, whatever its
handler makes of the cancellation. It ends once: nothing can stop it after it has ended.
"""

import asyncio
import logging
import time
from enum import Enum
from typing import Any, Final

from headgate.client.task import Task
from headgate.model.errors import StoreError
from headgate.model.job import Acknowledgement, Claim, Stored
from headgate.model.lifecycle import Outcome
from headgate.worker.context import JobContext
from headgate.worker.handling import handle
from headgate.worker.hold import Hold, Holding
from headgate.worker.record import AttemptRecord
from headgate.worker.running import running
from headgate.worker.stuck import stack_of_task, stack_of_thread
from headgate.worker.verdicts import Verdict, of_raise
from headgate.worker.workbench import Workbench

NO_HANDLER: Final = "no handler registered"
NO_HANDLER_SNOOZE_MS: Final = 30_000
DEADLINE_EXCEEDED: Final = "deadline exceeded"
RELEASED: Final = "released: worker shutdown"
_ROLLBACK_SECONDS: Final = 1.0
# What a handler may do with the job in the name of its attempt.
_BY_ITSELF: Final = {
    Holding.CONCLUDED: Outcome.SUCCESS,
    Holding.RELEASED: Outcome.RATE_LIMITED,
}

logger = logging.getLogger("headgate.worker")


class Stop(Enum):
    """Why an attempt is told to end."""

    TIMEOUT = "timeout"
    DEADLINE = "deadline"
    LEASE_LOST = "lease lost"
    RELEASED = "released"


class Attempt:
    """The run of one claim."""

    __slots__ = (
        "_bench",
        "_context",
        "_entered",
        "_knows",
        "_limit_ms",
        "_stop",
        "_task",
        "claim",
        "confirmed",
        "ended",
        "ended_at",
        "lease",
        "lease_ms",
        "outcome",
        "record",
        "report",
        "started_at",
        "taken_at",
        "thread",
        "threaded",
        "told",
    )

    def __init__(self, claim: Claim, bench: Workbench, lease_ms: int) -> None:
        self.claim = claim
        self.lease = claim.lease
        self.lease_ms = lease_ms
        self.taken_at = time.monotonic()
        self.started_at = self.ended_at = 0.0
        self.ended = False
        # How it ended, as far as its worker knows; the store confirms it.
        self.outcome = ""
        self.confirmed = False
        self.told = False
        self.report: Acknowledgement | None = None
        self._bench = bench
        self._context: JobContext | None = None
        self.record: AttemptRecord | None = None
        self._entered = False
        # The handler was told by an exception that its lease is lost.
        self._knows = False
        self._limit_ms = 0
        self._stop: Stop | None = None
        self._task: asyncio.Task[None] | None = None
        self.thread: int | None = None
        # A thread cannot be cancelled, so neither is an attempt that waits for one.
        self.threaded = False

    @property
    def started(self) -> bool:
        return self._task is not None

    @property
    def context(self) -> JobContext | None:
        """What the handler may say and ask; None once the attempt has ended."""
        if self._context is None and not self.ended:
            self._context = JobContext(self.recorded(self._bench.tasks[self.claim.kind]))
        return self._context

    @property
    def concluding(self) -> bool:
        """Whether the handler is ending the job by itself, so that its lease cannot be lost."""
        record = self.record
        return record is not None and record.hold.state in (
            Holding.COMMITTING,
            Holding.CONCLUDED,
        )

    @property
    def running(self) -> bool:
        """Whether the handler runs, though the attempt may have been given up."""
        if self.thread is not None:
            return True
        return self._task is not None and not self._task.done()

    @property
    def stop_reason(self) -> str:
        return "" if self._stop is None else self._stop.value

    def stack(self) -> str:
        """Where the handler is."""
        if self.thread is not None:
            return stack_of_thread(self.thread)
        return "" if self._task is None else stack_of_task(self._task)

    def start(self) -> None:
        """Begins to run on the current event loop."""
        self.started_at = time.monotonic()
        self._task = asyncio.get_running_loop().create_task(
            self._run(), context=self._bench.variables.copy()
        )

    def stop(self, reason: Stop) -> None:
        """Tells the attempt to end. The first reason counts; without effect when it has ended.

        A handler in a thread is only told: the attempt goes on until it returns, so that no other
        attempt of the job begins beside it.
        """
        if self.ended or self._stop is not None:
            return
        self._stop = reason
        if self.record is not None:
            self.record.hold.stopped = True
        # Cancelled before its first step, a task never enters its coroutine; that looks by itself.
        if self._entered and not self._knows:
            self._interrupt()
        if self._entered:
            self._bench.places.stuck.told_to_end(self)

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
        telemetry = self._bench.telemetry
        if not telemetry:
            await self._go_through()
            return
        with telemetry.attempt(self.claim) as span:
            await self._go_through()
            error = None if self.report is None else self.report.error
            span.finish(self.outcome or Stop.LEASE_LOST.name.lower(), error)

    async def _go_through(self) -> None:
        report = None
        if self._stop is None:
            try:
                report = await self._perform()
            except BaseException as raised:
                # Whatever it is, it ends this attempt and nothing else.
                if self._stop is None:
                    report = self._report_error(raised)
        if self._stop is not None:
            report = self._report_stop(self._stop)
        if self.record is not None:
            report = await self._without_lease(self.record, report)
        self._end(report)

    async def _without_lease(
        self, record: AttemptRecord, report: Acknowledgement | None
    ) -> Acknowledgement | None:
        """What is left to report of an attempt whose handler may have ended the job itself."""
        if record.hold.state in (Holding.HELD, Holding.LOST):
            return report
        if record.hold.state is Holding.RELEASED:
            return None
        try:
            return None if await record.effects.concluded() else report
        except (StoreError, asyncio.CancelledError):
            # If it was ended, the store will refuse the report.
            return report

    def _end(self, report: Acknowledgement | None) -> None:
        if not self.ended:
            self.report = report
            self.ended = True
            self.ended_at = time.monotonic()
            if report is not None:
                self.outcome = report.outcome
            elif self.record is not None and self.record.hold.state in _BY_ITSELF:
                self.outcome = _BY_ITSELF[self.record.hold.state]
                self.confirmed = True
            if self.record is not None:
                self.record.close()
            # They refer back to this attempt; a cycle per job is work for the garbage collector.
            self._context = self.record = None
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
        running.set(self)
        try:
            verdict = await handle(self, task, self._bench.places)
        except BaseException:
            if self.record is not None:
                failure = await self.record.give_up()
                if failure is not None and self._stop is None:
                    raise failure from None
            raise
        finally:
            if timer is not None:
                timer.cancel()
        return self._report_verdict(verdict)

    def _report_error(self, raised: BaseException) -> Acknowledgement | None:
        task = self._bench.tasks[self.claim.kind]
        job_id = self.claim.job_id
        return self._report_verdict(of_raise(raised, task, job_id, lambda: self.context))

    def _report_verdict(self, verdict: Verdict) -> Acknowledgement | None:
        if verdict.outcome is None:
            return None
        return self._report(
            verdict.outcome,
            error=verdict.error,
            delay_ms=verdict.delay_ms,
            result=verdict.result,
        )

    def recorded(self, task: Task[Any]) -> AttemptRecord:
        """What the handler says and does; made when somebody needs it."""
        if self.record is None:
            assert self._task is not None
            self.record = AttemptRecord(
                self.claim,
                self._bench.worker_id,
                Hold(self._bench.store, self.lease, self._left),
                self._task.get_loop(),
                task,
                child_failed=self._interrupt,
                lengthen=self._lengthen,
            )
            self.record.hold.stopped = self._stop is not None
        return self.record

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

    def _left(self, state: Holding) -> None:
        """The handler has no lease any more, or soon will have none. From any thread."""
        record = self.record
        if state is Holding.COMMITTING or record is None:
            return
        if record.on_loop():
            self._let_go(state)
        else:
            record.loop.call_soon_threadsafe(self._let_go, state)

    def _let_go(self, state: Holding) -> None:
        if state is Holding.LOST:
            # What it has open it may still roll back; if it goes on all the same, it is cancelled.
            self._knows = True
            asyncio.get_running_loop().call_later(_ROLLBACK_SECONDS, self._interrupt)
            self._bench.lost(self)
        else:
            self._bench.settled(self)

    def _lengthen(self, by_ms: int) -> None:
        self.lease_ms = max(self.lease_ms, by_ms)

    def _interrupt(self) -> None:
        """Cancels the handler, where that can be done."""
        if self._task is not None and not self.threaded and not self.ended:
            self._task.cancel()

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
        record = self.record
        return Acknowledgement(
            lease=self.lease,
            outcome=outcome,
            error=error,
            delay_ms=delay_ms,
            logs=() if record is None else record.log.lines,
            actual_weight=None if record is None else record.actual_weight,
            result=result,
        )
