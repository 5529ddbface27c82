"""How the handler of an attempt is called, wherever it runs, and what belongs to the call.

What a task needs is settled once, when the first of its jobs begins: an attempt pays for nothing
that its task has not asked for.
"""

import logging
import threading
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from headgate.client.batches import BatchTask
from headgate.client.commands import CommandTask
from headgate.client.dependencies import resolve
from headgate.client.task import Execution, Task
from headgate.worker.commands import run_command
from headgate.worker.context import JobContext
from headgate.worker.places import HandlerPlaces
from headgate.worker.verdicts import SUCCESS, UNKNOWN_KIND, Verdict, of_return

if TYPE_CHECKING:
    from headgate.worker.attempt import Attempt

Handling = Callable[["Attempt"], Awaitable[Verdict]]
"""Runs the handler, and what it has started beside itself, to the end.

Raises what the handler does, and what stood in its way.
"""

logger = logging.getLogger("headgate.worker")


class Handlings(dict[str, Handling]):
    """How attempts are handled, by the kind of their job; made as the kinds turn up."""

    def __init__(self, places: HandlerPlaces) -> None:
        super().__init__()
        self._places = places
        self._unknown: set[str] = set()

    def __missing__(self, kind: str) -> Handling:
        task = self._places.tasks.get(kind)
        if task is not None:
            handling = self[kind] = handling_of(task, self._places)
            return handling
        if kind not in self._unknown:
            self._unknown.add(kind)
            logger.warning("no handler registered for kind %s; its jobs wait", kind)
        # Not kept: a task may be registered yet.
        return leave_to_others


def handling_of(task: Task[Any], places: HandlerPlaces) -> Handling:
    """How the attempts of a task are handled."""
    if isinstance(task, CommandTask):
        return partial(_run_command, task, places)
    if task.execution is Execution.PROCESS:
        return partial(_run_in_process, task, places)
    dressed = task.signature.dependencies or places.middleware
    if task.execution is not Execution.LOOP or dressed:
        return partial(_call_with_all, task, places)
    return _with_context(task) if task.signature.takes_context else _alone(task)


async def leave_to_others(attempt: "Attempt") -> Verdict:
    """How a job is handled that this worker has no task for, whatever else may be said of it."""
    return UNKNOWN_KIND


async def _run_command(task: CommandTask, places: HandlerPlaces, attempt: "Attempt") -> Verdict:
    context = JobContext(attempt.recorded(task))
    return await run_command(task.command, attempt.claim, context, places.guard)


async def _run_in_process(task: Task[Any], places: HandlerPlaces, attempt: "Attempt") -> Verdict:
    return await places.processes.run(task, attempt.claim, attempt.recorded(task))


def _alone(task: Task[Any]) -> Handling:
    invoke, payload_of = task.invoke, task.payload_of

    async def call(attempt: "Attempt") -> Verdict:
        returned = await invoke(None, payload_of(attempt.claim))
        if returned is None and attempt.record is None:
            return SUCCESS
        return await _finished(attempt, returned)

    return call


def _with_context(task: Task[Any]) -> Handling:
    invoke, payload_of = task.invoke, task.payload_of

    async def call(attempt: "Attempt") -> Verdict:
        payload = payload_of(attempt.claim)
        return await _finished(attempt, await invoke(attempt.context, payload))

    return call


async def _call_with_all(task: Task[Any], places: HandlerPlaces, attempt: "Attempt") -> Verdict:
    payload = task.payload_of(attempt.claim)
    context = attempt.context if task.signature.takes_context else None
    async with AsyncExitStack() as stack:
        values = await resolve(
            task.signature.dependencies, places.provided, lambda: attempt.context, stack
        )
        call: Callable[[], Awaitable[Any]]
        if isinstance(task, BatchTask):
            assert context is not None
            call = partial(places.batches.run, task, context, payload)
        else:
            invoke = partial(task.invoke, context, payload, **values)
            call = (
                invoke
                if task.execution is Execution.LOOP
                else partial(_call_in_thread, attempt, places, invoke)
            )
        for middleware in reversed(places.middleware):
            call = partial(middleware, attempt.context, call)
        returned = await call()
    return await _finished(attempt, returned)


async def _finished(attempt: "Attempt", returned: Any) -> Verdict:
    record = attempt.record
    if record is None:
        return of_return(returned, None)
    if record.unfinished:
        await record.finish()
    return of_return(returned, record.result)


async def _call_in_thread(
    attempt: "Attempt", places: HandlerPlaces, invoke: Callable[[], Any]
) -> Any:
    def call() -> Any:
        attempt.thread = threading.get_ident()
        try:
            return invoke()
        finally:
            attempt.thread = None

    attempt.threaded = True
    try:
        returned, raised = await places.threads.submit(call)
    finally:
        attempt.threaded = False
    if raised is not None:
        raise raised
    return returned
