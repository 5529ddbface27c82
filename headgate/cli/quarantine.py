"""`headgate quarantine`: what killed its workers too often."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from headgate.cli.commands import Done, Listing, changing, noun, reading
from headgate.cli.control_api import ControlApi, segment

application = noun("Look at what is quarantined, and release it.")


@reading(
    application,
    "list",
    shows=Listing(("fingerprint", "kind", "crash_count", "quarantined_at_ms", "reason")),
)
def list_quarantine(api: ControlApi) -> Iterable[Any]:
    """List quarantined fingerprints, newest first."""
    return api.listed("/quarantine")


@changing(application, "release")
def release(
    api: ControlApi,
    fingerprint: Annotated[str, typer.Argument(metavar="FINGERPRINT", show_default=False)],
) -> Done:
    """Let jobs of a fingerprint run again."""
    api.send("DELETE", f"/quarantine/{segment(fingerprint)}")
    return Done(f"released {fingerprint}")
