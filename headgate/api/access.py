"""Who asks: by a bearer token of ours, or by the authentication of the host application."""

from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from starlette.authentication import (
    AuthCredentials,
    AuthenticationBackend,
    AuthenticationError,
    BaseUser,
)
from starlette.requests import HTTPConnection
from starlette.types import Scope

from headgate.api.errors import Refusal
from headgate.api.tokens import TokenDirectory
from headgate.model.access import Caller, Role

SCOPE_PREFIX: Final = "headgate:"
"""Before the name of a role in the scopes that an authentication backend grants."""

_SCHEME: Final = b"bearer "
_OWN_SITE: Final = frozenset({b"same-origin", b"none"})


class HostAuthentication(AuthenticationBackend):
    """Takes over what the middleware of the application around has found out about a request."""

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, BaseUser] | None:
        auth, user = conn.scope.get("auth"), conn.scope.get("user")
        if auth is None or user is None or not user.is_authenticated:
            return None
        return auth, user


class Access:
    """Asks every request who it comes from: the backend first, if there is one, then the token."""

    def __init__(
        self, tokens: TokenDirectory | None, backend: AuthenticationBackend | None
    ) -> None:
        self._tokens = tokens
        self._backend = backend

    async def authenticate(self, scope: Scope) -> Caller:
        """Who asks. Raises `Refusal` 401, the same for everybody who is not known."""
        caller = None
        if self._backend is not None:
            caller = await self._ask_backend(self._backend, scope)
        if caller is None and self._tokens is not None:
            caller = await self._tokens.find(_bearer(scope))
        if caller is None:
            raise Refusal(401, "authentication required", headers={"www-authenticate": "Bearer"})
        return caller

    async def _ask_backend(self, backend: AuthenticationBackend, scope: Scope) -> Caller | None:
        try:
            found = await backend.authenticate(HTTPConnection(scope))
        except AuthenticationError:
            return None
        if found is None:
            return None
        credentials, user = found
        scope["auth"], scope["user"] = credentials, user
        return Caller.of(_name(user), _roles(credentials.scopes), **getattr(user, "attributes", {}))


def _name(user: BaseUser) -> str:
    try:
        return user.identity
    except NotImplementedError:
        return user.display_name


def _roles(scopes: Iterable[str]) -> list[Role]:
    return [role for role in Role if SCOPE_PREFIX + role in scopes]


def _bearer(scope: Scope) -> bytes:
    """What the first Authorization header presents; b"" when that is no bearer token."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            presented: bytes = value
            if presented[: len(_SCHEME)].lower() == _SCHEME:
                return presented[len(_SCHEME) :].strip()
            break
    return b""


def refuse_foreign_origin(scope: Scope, allowed: Iterable[str]) -> None:
    """Raises `Refusal` 403 for a mutation that a browser sends from the page of another site.

    A browser adds the credentials of its user to such a request. What it says of the request's
    origin cannot be forged by the page; without it the client is no browser, or one whose page
    could not have sent a header of ours.
    """
    headers = dict(reversed(scope["headers"]))
    origin: bytes = headers.get(b"origin", b"")
    if origin and origin.decode("latin-1") in allowed:
        return
    site = headers.get(b"sec-fetch-site")
    if site is None:
        foreign = bool(origin) and not _same_host(origin, headers.get(b"host", b""))
    else:
        foreign = site not in _OWN_SITE
    if foreign:
        raise Refusal(403, "cross-origin requests are not allowed")


def _same_host(origin: bytes, host: bytes) -> bool:
    try:
        return urlsplit(origin.decode("latin-1")).netloc.lower() == host.decode("latin-1").lower()
    except ValueError:
        return False
