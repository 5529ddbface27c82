"""What a handler may say about its attempt, and do in its name."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

from headgate.client.durations import duration_ms
from headgate.model.errors import InvalidRequest
from headgate.model.job import Acknowledgement
from headgate.model.lifecycle import Outcome
from headgate.model.limits import MAX_INT32
from headgate.store.foreign import AsyncConnectionLike
from headgate.worker.attempt_log import JobLogger
from headgate.worker.blocking import BlockingContext
from headgate.worker.facts import JobFacts
from headgate.worker.hold import Holding
from headgate.worker.outcomes import RATE_LIMITED_DELAY_MS
from headgate.worker.record import AttemptRecord, stored_result
from headgate.worker.steps import call


class JobContext(JobFacts):
    """The attempt that a handler is running. Valid until the handler returns.

    What is written needs the lease. Where it is lost, the methods raise `LeaseLost`, which is no
    `Exception`, and the attempt ends without a report. They also raise `StoreUnavailable`.
    """

    __slots__ = ("_hold", "_logger", "_record")

    def __init__(self, record: AttemptRecord) -> None:
        super().__init__(record.claim, record.worker_id)
        self._record = record
        self._hold = record.hold
        self._logger: JobLogger | None = None

    @property
    def stopped(self) -> bool:
        """Whether this attempt should end: timed out, lease lost, or the worker shuts down.

        An `async` handler is cancelled then. A thread cannot be, so a `def` handler that takes
        long asks for this now and then, and returns.
        """
        return self._hold.stopped

    @property
    def logs(self) -> tuple[str, ...]:
        """What was logged so far."""
        return self._record.log.lines

    def log(self, text: str) -> None:
        """Keeps a line in the history of the job, with how this attempt ends.

        Of an attempt the first 100 lines are kept, of a line the first 2 KiB. Lost when the worker
        dies, and for endings that leave no trace in the history.
        """
        self._record.log.write(text)

    @property
    def logger(self) -> JobLogger:
        """A logger whose lines from INFO on are kept like those of `log`."""
        if self._logger is None:
            self._logger = JobLogger(self._record.log, self.id, self.kind)
        return self._logger

    def set_result(self, result: Any, *, schema_version: int = 1) -> None:
        """Publishes `result` with the success of this attempt; the last call wins.

        Bytes are kept as they are, anything else as JSON. A value that the handler returns does the
        same. Raises `InvalidRequest` for more than 32 MiB, for what has no JSON form, and for a
        version outside 1-2147483647.
        """
        self._record.result = stored_result(result, schema_version)

    def report_actual_weight(self, weight: int) -> None:
        """What the job really cost of its rate class; 0 gives everything back. The last call wins.

        Raises `InvalidRequest` below 0 and above 2147483647.
        """
        if not 0 <= weight <= MAX_INT32:
            raise InvalidRequest(f"actual weight must be between 0 and {MAX_INT32}")
        self._record.actual_weight = weight

    async def progress(self, current: int, total: int, message: str | None = None) -> None:
        """Shows how far the attempt has come: `current` of `total`, and up to 512 bytes of text.

        Each call is a write. Raises `InvalidRequest` for what cannot be.
        """
        artifacts = self._hold.store.artifacts
        await self._hold.write(
            lambda: artifacts.write_progress(self._hold.lease, current, total, message)
        )

    async def output(self, output: Any, *, schema_version: int = 1) -> None:
        """Publishes what the attempt has so far, in place of what it published before.

        It stays when the attempt fails. Raises `InvalidRequest` as `set_result` does.
        """
        stored = stored_result(output, schema_version, field="output")
        artifacts = self._hold.store.artifacts
        await self._hold.write(
            lambda: artifacts.write_output(self._hold.lease, stored.schema_version, stored.bytes)
        )

    async def extend_lease(self, by_ms: int) -> None:
        """Makes this job's lease last `by_ms` from now, and from then on with every renewal.

        Leases are renewed without asking; this is for a handler that must be alone for longer than
        the worker's lease even if the worker hangs. Raises `InvalidRequest` below one millisecond.
        """
        duration_ms("lease", None, by_ms)
        self._hold.check()
        if await self._hold.store.leases.renew([self._hold.lease], by_ms):
            raise self._hold.lost()
        self._record.lengthen(by_ms)

    async def release(
        self, *, after: timedelta | None = None, after_ms: int = RATE_LIMITED_DELAY_MS
    ) -> None:
        """Gives the job back at once: it runs again after the delay, one second by default.

        It costs no attempt. The handler goes on, but nothing it says counts any more; to end it
        too, raise `RateLimited`. Raises `InvalidRequest` for a delay below one millisecond.
        """
        delay_ms = duration_ms("after", after, after_ms if after is None else None)
        self._hold.check()
        report = Acknowledgement(
            lease=self._hold.lease,
            outcome=Outcome.RATE_LIMITED,
            delay_ms=delay_ms,
            actual_weight=self._record.actual_weight,
        )
        (settlement,) = await self._hold.store.leases.acknowledge([report])
        if settlement.state is None:
            raise self._hold.lost()
        self._hold.leave(Holding.RELEASED)

    async def step(self, name: str, function: Callable[..., Any], *arguments: Any) -> bool:
        """Does a part of the work once, however many attempts the job takes; false when an attempt
        before this one has done it.

        Steps are called in the same order in every attempt. A step that fails, or whose worker
        dies, begins again. Raises what `function` raises, and `InvalidRequest` for a name that
        comes twice, a step inside of another, and a step after one that has failed.
        """
        return await self.cursor_step(name, lambda cursor: function(*arguments))

    async def cursor_step(
        self, name: str, function: Callable[..., Any], *arguments: Any, type: Any = Any
    ) -> bool:
        """A step that goes on where it stopped: `function` gets the last cursor that was set in it,
        as a value of `type`, or None at the beginning; then the arguments. Like `step` otherwise.
        """
        trail = self._record.trail
        if not await trail.enter(name):
            return False
        try:
            await call(function, trail.cursor(name, type), *arguments)
        except BaseException:
            trail.fail()
            raise
        await trail.leave()
        return True

    async def set_cursor(self, cursor: Any) -> None:
        """Keeps where the running step stands, as JSON. Each call is a write.

        Raises `InvalidRequest` outside of a step and for what has no JSON form.
        """
        await self._record.trail.move(cursor)

    async def once(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        connection: AsyncConnectionLike | None = None,
    ) -> bool:
        """Ends the job in success in one transaction with what `function` does, exactly once.

        `function` gets the connection, then the arguments; what it returns is the job's result.
        Without a `connection` that is one of asyncpg, in a transaction that is committed here.
        With one, such as a session of SQLAlchemy, the transaction is the caller's to commit; when
        it has not done so by the time the handler returns, the attempt fails. False when an earlier
        delivery had the effect already: then the job is ended without it.

        When the lease is lost meanwhile, everything is rolled back. After it nothing can be written
        about the job.
        """
        return await self._record.effects.once(function, arguments, connection)

    async def step_once(
        self,
        name: str,
        function: Callable[..., Any],
        *arguments: Any,
        connection: AsyncConnectionLike | None = None,
    ) -> bool:
        """A step that is done in one transaction with what `function` does, exactly once.

        Like `step` and `once` otherwise. A transaction of the caller's must be committed before the
        next step begins.
        """
        record = self._record
        return await record.effects.step_once(record.trail, name, function, arguments, connection)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Runs `work` beside the handler, as a part of the attempt.

        Success waits for it. When it fails, the handler and everything else that was spawned is
        cancelled, and the attempt fails with its error. For `async` handlers.
        """
        if self._hold.state is Holding.ENDED:
            work.close()
            raise InvalidRequest("the attempt has ended: nothing can be started in it")
        return self._record.children.start(work)

    @property
    def blocking(self) -> BlockingContext:
        """The same for a `def` handler, which cannot await."""
        return BlockingContext(self, self._record)
