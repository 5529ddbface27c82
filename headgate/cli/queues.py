"""`headgate queues`: how they fare, and what an operator does to them."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from headgate.cli.commands import Done, Listing, Sheet, Yes, changing, confirmed, noun, reading
from headgate.cli.control_api import ControlApi, segment
from headgate.cli.operations import followed
from headgate.cli.times import milliseconds

application = noun("Look at queues and steer them.")

Queue = Annotated[str, typer.Argument(metavar="QUEUE", show_default=False)]


@reading(
    application,
    "list",
    shows=Listing(
        (
            "queue",
            "unfinished_jobs",
            "max_unfinished_jobs",
            "weight",
            "paused",
            "arrival_rate",
            "drain_rate",
            "time_to_drain_ms",
            "oldest_available_ms",
        )
    ),
)
def list_queues(api: ControlApi) -> Iterable[Any]:
    """List queues, how full they are and how fast they drain."""
    return api.listed("/queues")


@reading(application, "history", shows=Listing(("at_ms", "arrived", "completed")))
def history(
    api: ControlApi,
    queue: Queue,
    bucket: Annotated[
        str, typer.Option("--bucket", help="How much time a line is about, from 1m on.")
    ] = "1m",
) -> Any:
    """Show what arrived and what was completed, over time."""
    return api.get(f"/queues/{segment(queue)}/history", bucket_ms=milliseconds(bucket))


@reading(application, "blocked", shows=Sheet())
def blocked(api: ControlApi, queue: Queue) -> Any:
    """Show what holds the waiting jobs of a queue back."""
    return api.get(f"/queues/{segment(queue)}/blocked")


@reading(application, "partitions", shows=Listing(("partition_key", "waiting")))
def partitions(api: ControlApi, queue: Queue) -> Iterable[Any]:
    """List the partitions of a queue."""
    return api.listed("/partitions", queue=queue)


@changing(application, "pause")
def pause(api: ControlApi, queue: Queue) -> Done:
    """Let no job of a queue start; jobs still come in."""
    api.send("POST", f"/queues/{segment(queue)}/pause")
    return Done(f"paused {queue}")


@changing(application, "resume")
def resume(api: ControlApi, queue: Queue) -> Done:
    """Let jobs of a paused queue start again."""
    api.send("POST", f"/queues/{segment(queue)}/resume")
    return Done(f"resumed {queue}")


@changing(application, "weight")
def weight(
    api: ControlApi,
    queue: Queue,
    value: Annotated[int, typer.Argument(metavar="WEIGHT", show_default=False)],
) -> Done:
    """Set the share of a queue against the others."""
    api.send("PUT", f"/queues/{segment(queue)}", {"weight": value})
    return Done(f"{queue} has weight {value}")


@changing(application, "limit")
def limit(
    api: ControlApi,
    queue: Queue,
    jobs: Annotated[
        int | None,
        typer.Argument(metavar="[JOBS]", help="Without it there is no limit.", show_default=False),
    ] = None,
) -> Done:
    """Set how many unfinished jobs a queue takes in, or take the limit away."""
    path = f"/queues/{segment(queue)}/enqueue-limit"
    if jobs is None:
        api.send("DELETE", path)
        return Done(f"{queue} has no limit")
    api.send("PUT", path, {"max_unfinished_jobs": jobs})
    return Done(f"{queue} takes {jobs} unfinished jobs")


@changing(application, "sample-memory")
def sample_memory(api: ControlApi) -> Done:
    """Weigh the newest jobs of each queue."""
    answer = api.send("POST", "/queues/actions/sample-memory", {})
    return Done(f"sampled {answer['sampled_queues']} queues", answer)


@changing(application, "delete")
def delete(
    api: ControlApi,
    queue: Queue,
    force: Annotated[
        bool, typer.Option("--force", help="Also with the jobs that are in it.")
    ] = False,
    wait: Annotated[bool, typer.Option(help="Wait until its jobs are gone.")] = True,
    yes: Yes = False,
) -> Done:
    """Delete a queue that is empty, or with --force also its jobs."""
    if force:
        confirmed(f"Delete queue {queue} and every job in it that does not run?", yes=yes)
    answer = api.send("DELETE", f"/queues/{segment(queue)}", force=force)
    if answer is None:
        return Done(f"deleted {queue}")
    return followed(api, answer["operation_id"], wait=wait)
