"""Which names a server that asks nobody answers to."""

import ipaddress
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from headgate.api.errors import Refusal, response_for

_REFUSAL: Final = "this server answers to addresses and local names only"


class LocalNamesOnly:
    """Refuses requests to any name but an address and one that is no name on the internet.

    A page can make a name of its own site resolve to the loopback address and then be of the same
    origin as a server that listens there. What such a server asks nobody, any page could ask it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or is_local_name(_host(scope)):
            await self._app(scope, receive, send)
        else:
            await response_for(Refusal(403, _REFUSAL))(scope, receive, send)


def is_local_name(host: str) -> bool:
    """Whether a Host header, with or without a port, could not come from another site's name."""
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    name = name.lower().removesuffix(".")
    # A site on the internet has a dot in its name.
    if ("." not in name and ":" not in name) or name.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _host(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"host":
            host: str = value.decode("latin-1")
            return host
    return ""
