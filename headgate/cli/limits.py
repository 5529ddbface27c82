"""`headgate limits`: how many jobs of a partition may run at a time."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any

import typer

from headgate.cli.commands import Done, Listing, Sheet, changing, noun, reading
from headgate.cli.control_api import ControlApi, segment

application = noun("Look at concurrency limits and set them.")

Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]


class Saturated(StrEnum):
    QUEUE = "queue"
    DISCARD = "discard"
    CANCEL_RUNNING = "cancel_running"
    CANCEL_INCOMING = "cancel_incoming"


@reading(application, "list", shows=Listing(("name", "queue", "max_concurrent", "on_saturated")))
def list_limits(api: ControlApi) -> Iterable[Any]:
    """List concurrency limits."""
    return api.listed("/concurrency-limits")


@reading(application, "show", shows=Sheet())
def show(api: ControlApi, name: Name) -> Any:
    """Show a concurrency limit."""
    return api.get(f"/concurrency-limits/{segment(name)}")


@changing(application, "set")
def set_limit(
    api: ControlApi,
    name: Name,
    queue: Annotated[
        str, typer.Option("--queue", help="Whose partitions it is for.", show_default=False)
    ],
    maximum: Annotated[
        int, typer.Option("--max", help="Jobs of a partition at a time.", show_default=False)
    ],
    on_saturated: Annotated[
        Saturated, typer.Option("--on-saturated", help="What becomes of one too many.")
    ] = Saturated.QUEUE,
) -> Done:
    """Create a concurrency limit, or set it anew."""
    body = {"queue": queue, "max_concurrent": maximum, "on_saturated": on_saturated.value}
    api.send("PUT", f"/concurrency-limits/{segment(name)}", body)
    return Done(f"{name} lets {maximum} of a partition of {queue} run")


@changing(application, "delete")
def delete(api: ControlApi, name: Name) -> Done:
    """Delete a concurrency limit."""
    api.send("DELETE", f"/concurrency-limits/{segment(name)}")
    return Done(f"deleted {name}")
