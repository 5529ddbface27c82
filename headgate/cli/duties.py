"""`headgate duties`: who does the work in the background."""

from typing import Any

from headgate.cli.commands import Listing, noun, reading
from headgate.cli.control_api import ControlApi

application = noun("Look at the duties in the background.")


@reading(
    application,
    "list",
    shows=Listing(("name", "holder", "expires_at_ms", "last_success_ms", "lag_ms", "rows_handled")),
)
def list_duties(api: ControlApi) -> Any:
    """List duties, who holds each, and how far behind it is."""
    return api.get("/duties")
