"""One attempt of one job: from its claim to the report of how it ended.

An attempt is stopped for one reason at most, and then reported by that reason, whatever its
handler makes of the cancellation. It ends once: nothing can stop it after it has ended.
"""

import asyncio
import time
from typing import Any, Final

from headgate.client.task import Task
from headgate.model.errors import StoreError
from headgate.model.job import Acknowledgement, Claim
from headgate.model.lifecycle import Outcome
from headgate.worker.context import JobContext
from headgate.worker.handling import leave_to_others
from headgate.worker.hold import Hold, Holding
from headgate.worker.record import AttemptRecord
from headgate.worker.running import running
from headgate.worker.stop import Stop
from headgate.worker.stuck import stack_of_task, stack_of_thread
from headgate.worker.verdicts import UNREPORTED, Verdict, of_raise, of_stop
from headgate.worker.workbench import Workbench

_ROLLBACK_SECONDS: Final = 1.0
# What a handler may do with the job in the name of its attempt.
_BY_ITSELF: Final = {
    Holding.CONCLUDED: Outcome.SUCCESS,
    Holding.RELEASED: Outcome.RATE_LIMITED,
}


class Attempt:
    """The run of one claim."""

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
        self.record: AttemptRecord | None = None
        self.thread: int | None = None
        # A thread cannot be cancelled, so neither is an attempt that waits for one.
        self.threaded = False
        self._bench = bench
        self._context: JobContext | None = None
        self._entered = False
        self._limit_ms = 0
        self._stop: Stop | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def started(self) -> bool:
        return self.started_at > 0

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
        bench = self._bench
        self._task = asyncio.get_running_loop().create_task(
            self._run_observed() if bench.telemetry.listeners else self._run(),
            context=bench.variables.copy(),
        )

    def stop(self, reason: Stop) -> None:
        """Tells the attempt to end. The first reason counts; without effect when it has ended.

        A handler in a thread is only told: the attempt goes on until it returns, so that no other
        attempt of the job begins beside it.
        """
        if self.ended or self._stop is not None:
            return
        self._stop = reason
        knows = False
        if self.record is not None:
            self.record.hold.stopped = True
            # Told by an exception that its lease is lost, the handler has a little time for itself.
            knows = self.record.hold.state is Holding.LOST
        # Cancelled before its first step, a task never enters its coroutine; that looks by itself.
        if self._entered:
            if not knows:
                self._interrupt()
            self._bench.places.stuck.told_to_end(self)

    def abandon(self, reason: Stop) -> None:
        """Ends the attempt now, though its handler may still be running somewhere."""
        if self.ended:
            return
        self.stop(reason)
        if self._task is not None:
            self._task.cancel()
        self._end(self._reported(of_stop(self._stop or reason, self._limit_ms)))

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

    async def _run_observed(self) -> None:
        with self._bench.telemetry.attempt(self.claim) as span:
            await self._run()
            error = None if self.report is None else self.report.error
            span.finish(self.outcome or Stop.LEASE_LOST.name.lower(), error)

    async def _run(self) -> None:
        self._entered = True
        claim = self.claim
        verdict: Verdict | None = None
        handling = self._bench.handlings[claim.kind]
        if (claim.timeout_ms or claim.deadline_ms) and handling is not leave_to_others:
            self._limit()
        if self._stop is None:
            running.set(self)
            try:
                verdict = await handling(self)
            except BaseException as raised:
                # Whatever it is, it ends this attempt and nothing else.
                verdict = await self._failed(raised)
        if self._timer is not None:
            self._timer.cancel()
        if self._stop is not None:
            verdict = of_stop(self._stop, self._limit_ms)
        report = self._reported(verdict or UNREPORTED)
        record = self.record
        if record is not None and record.hold.state is not Holding.HELD:
            report = await self._without_lease(record, report)
        self._end(report)
        # The context of the task refers to this attempt, see above.
        self._task = None

    async def _failed(self, raised: BaseException) -> Verdict | None:
        """Ends what the handler has started; None when the attempt was told to end."""
        try:
            if self.record is not None:
                raised = await self.record.give_up() or raised
        except BaseException as another:
            raised = another
        if self._stop is not None:
            return None
        task = self._bench.tasks[self.claim.kind]
        return of_raise(raised, task, self.claim.job_id, lambda: self.context)

    async def _without_lease(
        self, record: AttemptRecord, report: Acknowledgement | None
    ) -> Acknowledgement | None:
        """What is left to report of an attempt whose handler may have ended the job itself."""
        if record.hold.state is Holding.LOST:
            return report
        if record.hold.state is Holding.RELEASED:
            return None
        try:
            return None if await record.effects.concluded() else report
        except (StoreError, asyncio.CancelledError):
            # If it was ended, the store will refuse the report.
            return report

    def _reported(self, verdict: Verdict) -> Acknowledgement | None:
        if verdict.outcome is None:
            return None
        record = self.record
        if record is None and verdict.outcome is Outcome.SUCCESS:
            return Acknowledgement(lease=self.lease, outcome=verdict.outcome, result=verdict.result)
        return Acknowledgement(
            lease=self.lease,
            outcome=verdict.outcome,
            error=verdict.error,
            delay_ms=verdict.delay_ms,
            logs=() if record is None else record.log.lines,
            actual_weight=None if record is None else record.actual_weight,
            result=verdict.result,
        )

    def _end(self, report: Acknowledgement | None) -> None:
        if self.ended:
            return
        self.report = report
        self.ended = True
        self.ended_at = time.monotonic()
        record = self.record
        if report is not None:
            self.outcome = report.outcome
        elif record is not None and record.hold.state in _BY_ITSELF:
            self.outcome = _BY_ITSELF[record.hold.state]
            self.confirmed = True
        if record is not None:
            record.close()
            # They refer back to this attempt; a cycle per job is work for the garbage collector.
            self._context = self.record = None
        self._bench.ended(self)

    def _limit(self) -> None:
        """Has the attempt stopped when its time is over, which it may be already.

        The deadline is an instant of the database's clock; the claim says what that clock showed.
        """
        claim = self.claim
        waited_ms = int((time.monotonic() - self.taken_at) * 1000)
        reason = Stop.DEADLINE
        self._limit_ms = claim.deadline_ms - claim.claimed_at_ms - waited_ms
        if not claim.deadline_ms or 0 < claim.timeout_ms < self._limit_ms:
            reason, self._limit_ms = Stop.TIMEOUT, claim.timeout_ms
        if self._limit_ms <= 0:
            self._stop = self._stop or reason
        else:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._limit_ms / 1000, self.stop, reason)

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
