"""`headgate operations`: changes to many jobs, which take their time."""

import time
from collections.abc import Iterable
from typing import Annotated, Any, Final

import typer

from headgate.cli.commands import Done, Listing, Sheet, changing, noun, reading
from headgate.cli.control_api import ControlApi, segment
from headgate.cli.exits import EXIT_FAILED
from headgate.cli.progress import Progress

application = noun("Follow and stop changes to many jobs.")

_POLL_S: Final = 0.2
_OVER: Final = frozenset({"completed", "failed", "cancelled"})

Operation = Annotated[str, typer.Argument(metavar="ID", show_default=False)]


def followed(api: ControlApi, operation_id: str, *, wait: bool) -> Done:
    """Where an operation stands; with `wait`, where it ended, shown as it goes."""
    path = f"/operations/{segment(operation_id)}"
    found = api.get(path)
    if wait and found["status"] not in _OVER:
        progress = Progress("jobs", found["total_estimated"])
        try:
            while found["status"] not in _OVER:
                progress.show(found["affected"])
                time.sleep(_POLL_S)
                found = api.get(path)
        finally:
            progress.end()
    text = f"operation {operation_id} is {found['status']}: {found['affected']} jobs"
    if found["error"]:
        text += f", {found['error']}"
    return Done(text, found, EXIT_FAILED if wait and found["status"] != "completed" else 0)


@reading(
    application,
    "list",
    shows=Listing(
        (
            "id",
            "action",
            "selector",
            "dry_run",
            "status",
            "affected",
            "total_estimated",
            "error",
        )
    ),
)
def list_operations(api: ControlApi) -> Iterable[Any]:
    """List operations, unfinished ones first."""
    return api.listed("/operations")


@reading(application, "show", shows=Sheet())
def show(api: ControlApi, operation: Operation) -> Any:
    """Show how far an operation has come."""
    return api.get(f"/operations/{segment(operation)}")


@changing(application, "wait")
def wait(api: ControlApi, operation: Operation) -> Done:
    """Wait for the end of an operation; fail when it does."""
    return followed(api, operation, wait=True)


@changing(application, "cancel")
def cancel(api: ControlApi, operation: Operation) -> Done:
    """Stop an operation; what it has changed stays changed."""
    answer = api.send("DELETE", f"/operations/{segment(operation)}")
    return Done(f"cancelled {operation}", answer)
