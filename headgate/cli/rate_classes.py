"""`headgate rate-classes`: how much of something may start in how much time."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from headgate.cli.commands import Done, Listing, Sheet, changing, noun, reading
from headgate.cli.control_api import ControlApi, segment
from headgate.cli.times import milliseconds

application = noun("Look at rate classes and set them.")

Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]


@reading(
    application,
    "list",
    shows=Listing(
        (
            "name",
            "limit_per_window",
            "window_ms",
            "burst",
            "tokens_available",
            "jobs_waiting",
            "paused",
        )
    ),
)
def list_rate_classes(api: ControlApi) -> Iterable[Any]:
    """List rate classes and what they have left."""
    return api.listed("/rate-classes")


@reading(application, "show", shows=Sheet())
def show(api: ControlApi, name: Name) -> Any:
    """Show a rate class."""
    return api.get(f"/rate-classes/{segment(name)}")


@changing(application, "set")
def set_rate_class(
    api: ControlApi,
    name: Name,
    limit: Annotated[int, typer.Option("--limit", help="Tokens per window.", show_default=False)],
    window: Annotated[str, typer.Option("--window", help="Such as 1s or 1m.", show_default=False)],
    burst: Annotated[
        int | None,
        typer.Option("--burst", help="Tokens at once; by default those of a window."),
    ] = None,
    paused: Annotated[bool, typer.Option("--paused", help="Let nothing pass.")] = False,
) -> Done:
    """Create a rate class, or set it anew; without --paused it lets jobs pass."""
    body = {"limit": limit, "window_ms": milliseconds(window), "burst": burst, "paused": paused}
    api.send("PUT", f"/rate-classes/{segment(name)}", body)
    return Done(f"{name} is paused" if paused else f"{name} passes {limit} in {window}")


@changing(application, "delete")
def delete(api: ControlApi, name: Name) -> Done:
    """Delete a rate class; jobs that name it run without a limit."""
    api.send("DELETE", f"/rate-classes/{segment(name)}")
    return Done(f"deleted {name}")
