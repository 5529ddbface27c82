"""Starlette's router on the path as it was sent, with a dispatch whose cost does not grow.

Starlette matches the decoded path, one route after the other: an encoded slash splits a segment
there, and the last of many routes is slow. Here a path is cut into segments first and decoded
afterwards, so that a name may hold any character, and a tree of segments finds the route.
"""

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes

from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route, Router
from starlette.types import ASGIApp, Lifespan, Receive, Scope, Send

_PARAMETER: Final = "{"


def raw_route_path(scope: Scope) -> bytes:
    """The path below the mount point, still percent-encoded.

    Follows Starlette: `root_path` is decoded and normally is the beginning of the path. A server
    that keeps it apart, as some proxies do, leaves the path as it is.
    """
    raw: bytes = scope.get("raw_path") or b""
    if not raw:
        # Optional in ASGI. What was encoded is lost then, except what cannot stand in a path.
        raw = quote(scope["path"], safe="/", errors="surrogateescape").encode()
    root: str = scope.get("root_path", "")
    if not root:
        return raw
    prefix = root.encode(errors="surrogateescape")
    if raw.startswith(prefix) and raw[len(prefix) : len(prefix) + 1] in (b"", b"/"):
        return raw[len(prefix) :]
    end = raw.find(b"/", 1)
    while end != -1:
        if unquote_to_bytes(raw[:end]) == prefix:
            return raw[end:]
        end = raw.find(b"/", end + 1)
    return raw


def _decoded(segment: bytes) -> str:
    if b"%" in segment:
        segment = unquote_to_bytes(segment)
    # What is not UTF-8 stays visible as lone surrogates, for the endpoint to refuse.
    return segment.decode(errors="surrogateescape")


class RawRoute(Route):
    """All methods of one path. `endpoint` is an ASGI callable that tells methods apart itself.

    Each `{parameter}` of the path is one segment, not empty, percent-decoded after the match. Bytes
    that are not UTF-8 become lone surrogates in `path_params`.
    """

    def __init__(self, path: str, endpoint: ASGIApp, *, name: str | None = None) -> None:
        super().__init__(path, endpoint, name=name)
        self.segments: Final = tuple(path.encode().split(b"/"))
        self._positions: Final = tuple(
            (segment.decode().strip("{}"), position)
            for position, segment in enumerate(self.segments)
            if segment.startswith(b"{")
        )
        if {name for name, _ in self._positions} != set(self.param_convertors):
            raise ValueError(f"a parameter must be a whole segment: {path}")

    def bind(self, scope: Scope, segments: Sequence[bytes]) -> None:
        """Fills the scope as Starlette does for a match. `segments` are those of the raw path."""
        scope["route"] = self
        scope["endpoint"] = self.endpoint
        scope["path_params"] = {
            **scope.get("path_params", {}),
            **{name: _decoded(segments[position]) for name, position in self._positions},
        }

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http":
            return Match.NONE, {}
        segments = raw_route_path(scope).split(b"/")
        if len(segments) != len(self.segments) or not all(
            actual and expected.startswith(b"{") if actual != expected else True
            for expected, actual in zip(self.segments, segments, strict=True)
        ):
            return Match.NONE, {}
        child: dict[str, Any] = {"path_params": scope.get("path_params", {})}
        self.bind(child, segments)
        return Match.FULL, child


class _Node:
    """The routes that share the segments up to here."""

    __slots__ = ("literals", "parameter", "route")

    def __init__(self) -> None:
        self.literals: dict[bytes, _Node] = {}
        self.parameter: _Node | None = None
        self.route: RawRoute | None = None

    def add(self, route: RawRoute) -> None:
        node = self
        for segment in route.segments:
            if segment.startswith(b"{"):
                node.parameter = node.parameter or _Node()
                node = node.parameter
            else:
                node = node.literals.setdefault(segment, _Node())
        if node.route is not None:
            raise ValueError(f"two routes for one path: {route.path} and {node.route.path}")
        node.route = route

    def find(self, segments: Sequence[bytes], depth: int = 0) -> RawRoute | None:
        """The route for `segments`; where a literal leads nowhere, the parameter beside it."""
        if depth == len(segments):
            return self.route
        segment = segments[depth]
        literal = self.literals.get(segment)
        if literal is not None:
            found = literal.find(segments, depth + 1)
            if found is not None:
                return found
        if self.parameter is not None and segment:
            return self.parameter.find(segments, depth + 1)
        return None


class RawRouter(Router):
    """Dispatches `RawRoute`s by a tree; any other route is asked after them, as Starlette does.

    A literal segment wins over a parameter. No path is cleaned or redirected. An unknown path is
    answered 404 with an empty body.
    """

    def __init__(
        self, routes: Sequence[BaseRoute], *, lifespan: Lifespan[Any] | None = None
    ) -> None:
        super().__init__(routes, redirect_slashes=False, default=_not_found, lifespan=lifespan)
        self._tree = _Node()
        self._static: dict[bytes, RawRoute] = {}
        self._known = 0
        for route in self.routes:
            if isinstance(route, RawRoute):
                self._known += 1
                self._tree.add(route)
                if not route.param_convertors:
                    self._static[route.path.encode()] = route

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path = raw_route_path(scope)
            route = self._static.get(path)
            segments = () if route is not None else path.split(b"/")
            if route is None:
                route = self._tree.find(segments)
            if route is not None:
                scope.setdefault("router", self)
                route.bind(scope, segments)
                await route.app(scope, receive, send)
                return
            if len(self.routes) == self._known:
                await _not_found(scope, receive, send)
                return
        await super().app(scope, receive, send)


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1000, "reason": ""})
        return
    await Response(status_code=404)(scope, receive, send)
