"""`headgate workers`: who works, and what they are told."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any

import typer

from headgate.cli.commands import Done, Listing, Sheet, changing, noun, reading
from headgate.cli.control_api import ControlApi, segment

application = noun("Look at workers and tell them what to do.")


class Command(StrEnum):
    QUIET = "quiet"
    RESUME = "resume"
    RESTART = "restart"
    TERMINATE = "terminate"
    RESIGN = "resign"
    NONE = "none"


@reading(
    application,
    "list",
    shows=Listing(
        (
            "worker_id",
            "status",
            "pending_command",
            "inflight",
            "concurrency",
            "utilization",
            "queues",
            "heartbeat_at_ms",
        )
    ),
)
def list_workers(api: ControlApi) -> Iterable[Any]:
    """List the live workers."""
    return api.listed("/workers")


@reading(application, "cluster", shows=Sheet(lists={"queues": ("queue", "live_workers")}))
def cluster(api: ControlApi) -> Any:
    """Sum all workers up, and show which queues nobody serves."""
    return api.get("/cluster")


@changing(application, "signal")
def signal(
    api: ControlApi,
    worker: Annotated[str, typer.Argument(metavar="WORKER", show_default=False)],
    command: Annotated[
        Command, typer.Argument(help="`none` takes back what it was told.", show_default=False)
    ],
) -> Done:
    """Tell a worker what to do at its next heartbeat."""
    value = None if command is Command.NONE else command.value
    api.send("POST", f"/workers/{segment(worker)}/signal", {"command": value})
    return Done(f"told {worker}: {command.value}")
