"""`headgate workflows`: jobs that wait for each other."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from headgate.cli.commands import (
    Done,
    Limit,
    Listing,
    Sheet,
    Yes,
    changing,
    confirmed,
    noun,
    reading,
)
from headgate.cli.control_api import ControlApi, segment

application = noun("Look at workflows, retry what failed, cancel them.")

Workflow = Annotated[str, typer.Argument(metavar="ID", show_default=False)]


@reading(
    application,
    "list",
    shows=Listing(("workflow_id", "state", "enqueued_at_ms", "finalized_at_ms")),
)
def list_workflows(api: ControlApi, limit: Limit = 50) -> Iterable[Any]:
    """List workflows, newest first."""
    return api.paged("/workflows", "workflows", limit)


@reading(
    application,
    "show",
    shows=Sheet(
        lists={"nodes": ("name", "state", "dependencies", "attempt", "job_kind", "job_id")}
    ),
)
def show(api: ControlApi, workflow: Workflow) -> Any:
    """Show a workflow and its nodes, each after those it waits for."""
    return api.get(f"/workflows/{segment(workflow)}")


@changing(application, "retry")
def retry(
    api: ControlApi,
    workflow: Workflow,
    node: Annotated[
        list[str] | None,
        typer.Option("--node", help="A failed node, by its name; all of them without it."),
    ] = None,
    revision: Annotated[
        int | None,
        typer.Option(
            "--revision", help="Only if it was not changed since then; by default since now."
        ),
    ] = None,
) -> Done:
    """Try the nodes that failed again, and then what waited for them."""
    path = f"/workflows/{segment(workflow)}"
    seen = api.get(path)["revision"] if revision is None else revision
    body = {"expected_revision": seen, "nodes": node or None}
    api.send("POST", f"{path}/retry", body)
    return Done(f"retried {workflow}")


@changing(application, "cancel")
def cancel(api: ControlApi, workflow: Workflow, yes: Yes = False) -> Done:
    """Cancel a workflow and every node of it that has not ended."""
    confirmed(f"Cancel workflow {workflow}?", yes=yes)
    api.send("POST", f"/workflows/{segment(workflow)}/cancel")
    return Done(f"cancelled {workflow}")
