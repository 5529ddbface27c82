"""How the handler of an attempt is called, wherever it runs, and what belongs to the call."""

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
from headgate.worker.verdicts import Verdict, of_return

if TYPE_CHECKING:
    from headgate.worker.attempt import Attempt


async def handle(attempt: "Attempt", task: Task[Any], places: HandlerPlaces) -> Verdict:
    """Runs the handler, and what it has started beside itself, to the end.

    Raises what the handler does, and what stood in its way.
    """
    if isinstance(task, CommandTask):
        return await run_command(task.command, attempt.claim, JobContext(attempt.recorded(task)))
    if task.execution is Execution.PROCESS:
        return await places.processes.run(task, attempt.claim, attempt.recorded(task))
    payload = task.payload_of(attempt.claim)
    context = attempt.context if task.signature.takes_context else None
    if task.execution is Execution.LOOP and not (task.signature.dependencies or places.middleware):
        returned = await task.invoke(context, payload)
    else:
        returned = await _call(attempt, task, places, context, payload)
    record = attempt.record
    if record is None:
        return of_return(returned, None)
    await record.finish()
    return of_return(returned, record.result)


async def _call(
    attempt: "Attempt",
    task: Task[Any],
    places: HandlerPlaces,
    context: JobContext | None,
    payload: Any,
) -> Any:
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
        return await call()


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
