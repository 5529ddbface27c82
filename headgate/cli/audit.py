"""`headgate audit`: what was changed through the control API, and by whom."""

from collections.abc import Iterable
from typing import Any

from headgate.cli.commands import Limit, Listing, noun, reading
from headgate.cli.control_api import ControlApi

application = noun("Read the audit trail.")


@reading(
    application,
    "list",
    shows=Listing(("at_ms", "identity", "role", "method", "route", "target", "status")),
)
def list_audit(api: ControlApi, limit: Limit = 50) -> Iterable[Any]:
    """List changes, newest first."""
    return api.paged("/audit", "entries", limit)
