"""`headgate jobs`: look at jobs, change them, put them in."""

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar

import typer

from headgate.cli import jobs_changes
from headgate.cli.commands import Limit, Listing, Sheet, noun, reading
from headgate.cli.control_api import ControlApi, segment
from headgate.cli.lazy import Lazy


class Jobs(Lazy):
    """An import needs what a database takes; nothing else here does."""

    modules: ClassVar = {"import": "jobs_import"}


application = noun("Look at jobs, change them, put them in.", Jobs)

Job = Annotated[str, typer.Argument(metavar="ID", show_default=False)]


@reading(
    application,
    "list",
    shows=Listing(("id", "kind", "queue", "state", "attempt", "partition_key", "scheduled_at_ms")),
)
def list_jobs(
    api: ControlApi,
    query: Annotated[
        str | None,
        typer.Argument(
            metavar="[QUERY]",
            help="Terms such as `state:archived tag:billing`; one without a colon is the beginning"
            " of a kind.",
            show_default=False,
        ),
    ] = None,
    queue: Annotated[str | None, typer.Option("--queue", help="Of this queue.")] = None,
    state: Annotated[str | None, typer.Option("--state", help="In this state.")] = None,
    kind: Annotated[str | None, typer.Option("--kind", help="Of this kind.")] = None,
    partition: Annotated[str | None, typer.Option("--partition", help="Of this partition.")] = None,
    limit: Limit = 50,
) -> Iterable[Any]:
    """List jobs, newest first."""
    return api.paged(
        "/jobs",
        "jobs",
        limit,
        q=query,
        queue=queue,
        state=state,
        kind=kind,
        partition_key=partition,
    )


@reading(
    application,
    "show",
    shows=Sheet(
        lists={"errors": ("at_ms", "attempt", "crash_attempt", "outcome", "error", "logs")}
    ),
)
def show(
    api: ControlApi,
    job: Job,
    payload: Annotated[bool, typer.Option("--payload", help="With what it carries.")] = False,
) -> Any:
    """Show a job and how its attempts ended."""
    return api.get(f"/jobs/{segment(job)}", include_payload=payload)


@reading(application, "explain", shows=Sheet())
def explain(api: ControlApi, job: Job) -> Any:
    """Say why a job does or does not run."""
    return api.get(f"/jobs/{segment(job)}/admission", advice=True)


@reading(application, "counts", shows=Sheet())
def counts(
    api: ControlApi,
    queue: Annotated[str | None, typer.Option("--queue", help="Of this queue.")] = None,
) -> Any:
    """Count jobs by their states."""
    return api.get("/jobs/counts", queue=queue)


@reading(application, "result", shows=Sheet())
def result(api: ControlApi, job: Job) -> Any:
    """Show what a job that succeeded published."""
    return api.get(f"/jobs/{segment(job)}/result")


@reading(application, "progress", shows=Sheet())
def progress(api: ControlApi, job: Job) -> Any:
    """Show how far a running job says it is."""
    return api.get(f"/jobs/{segment(job)}/progress")


@reading(application, "checkpoint", shows=Sheet())
def checkpoint(api: ControlApi, job: Job) -> Any:
    """Show which steps of a job are done."""
    return api.get(f"/jobs/{segment(job)}/checkpoint")


@reading(application, "reveal", shows=Sheet())
def reveal(api: ControlApi, job: Job) -> Any:
    """Open the encrypted payload of a job."""
    return api.get(f"/jobs/{segment(job)}/payload/reveal")


application.add_typer(jobs_changes.application)
