"""The handler of workflow coordinators, which the workers of an application with workflows have."""

from typing import Final

from headgate.client.application import Headgate
from headgate.client.task import Task
from headgate.model.errors import InvalidRequest, NotFound
from headgate.model.texts import clean
from headgate.model.workflow import COORDINATOR_KIND, COORDINATOR_QUEUE, WorkflowPlan
from headgate.worker.context import JobContext
from headgate.worker.outcomes import Skip, Snooze

_MAX_REASON_BYTES: Final = 1_024


def serve_workflows(app: Headgate) -> None:
    """Gives the application the handler of coordinators, if it is to have one and has none yet."""
    if app.workflows and COORDINATOR_KIND not in app.tasks:
        app.adopt(_task(app))


def _task(app: Headgate) -> Task[WorkflowPlan]:
    async def coordinate(ctx: JobContext, plan: WorkflowPlan) -> None:
        """Lets the nodes of a workflow go that may run, and looks again later.

        It ends completed when all of them are, and archived when nothing is left to wait for.
        """
        try:
            standing = await app.store.workflows.advance(ctx.id)
        except (InvalidRequest, NotFound) as error:
            raise Skip(str(error)) from None
        if standing.live:
            raise Snooze(delay_ms=plan.poll_ms)
        if standing.failed:
            names = ", ".join(standing.failed)
            raise Skip(clean(f"failed: {names}", _MAX_REASON_BYTES))

    return Task(
        app,
        COORDINATOR_KIND,
        coordinate,
        aliases=(),
        version=1,
        options={"queue": COORDINATOR_QUEUE},
    )
