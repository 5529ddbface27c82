"""Jobs that wait for each other, to be run by one call of a batch handler."""

import asyncio
from typing import Any, Final

from headgate.client.batches import BatchJob, BatchTask
from headgate.model.errors import HeadgateError
from headgate.worker.context import JobContext
from headgate.worker.running import running


class WrongAnswer(HeadgateError):
    """A batch handler answered for another number of jobs than it was given."""


class Batches:
    """The batches that are being gathered, one for each task. For one event loop."""

    def __init__(self) -> None:
        self._gathering: dict[str, _Batch] = {}

    async def run(self, task: BatchTask[Any], context: JobContext, payload: Any) -> Any:
        """Runs the job with others of its kind; what the handler has returned for it.

        Cancelled before the handler is called, the job is withdrawn. Raises what the handler raised
        for all, or returned for this one.
        """
        batch = self._gathering.get(task.kind)
        if batch is None:
            batch = self._gathering[task.kind] = _Batch(task, self._begin)
        answer = batch.add(BatchJob(context, payload))
        try:
            returned = await answer
        finally:
            batch.withdraw(answer)
        if isinstance(returned, BaseException):
            raise returned
        return returned

    def _begin(self, batch: "_Batch") -> None:
        if self._gathering.get(batch.task.kind) is batch:
            del self._gathering[batch.task.kind]


class _Batch:
    """One batch: gathered until it is full or old enough, then handed to its handler."""

    def __init__(self, task: BatchTask[Any], begun: Any) -> None:
        self.task: Final = task
        self._begun = begun
        self._members: dict[asyncio.Future[Any], BatchJob[Any]] = {}
        self._running: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(task.max_delay_ms / 1000, self._flush)

    def add(self, member: BatchJob[Any]) -> "asyncio.Future[Any]":
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._members[answer] = member
        if len(self._members) >= self.task.max_size:
            self._flush()
        return answer

    def withdraw(self, answer: "asyncio.Future[Any]") -> None:
        """Nobody waits for this one. When nobody waits at all, the handler is cancelled."""
        self._members.pop(answer, None)
        if not self._members:
            self._timer.cancel()
            if self._running is None:
                self._begun(self)
            else:
                self._running.cancel()

    def _flush(self) -> None:
        self._timer.cancel()
        self._begun(self)
        if self._running is None and self._members:
            self._running = self._loop.create_task(self._run())

    async def _run(self) -> None:
        # A line that is logged in the handler belongs to no single job.
        running.set(None)
        answers = list(self._members)
        try:
            returned = await self.task.handler([self._members[answer] for answer in answers])
            if returned is None:
                returned = [None] * len(answers)
            elif len(returned) != len(answers):
                raise WrongAnswer(f"{len(returned)} answers for {len(answers)} jobs of a batch")
        except asyncio.CancelledError:
            returned = [asyncio.CancelledError("the batch was cancelled")] * len(answers)
        except BaseException as raised:
            returned = [raised] * len(answers)
        for answer, value in zip(answers, returned, strict=True):
            if not answer.done():
                answer.set_result(value)
