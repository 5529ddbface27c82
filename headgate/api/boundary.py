"""The outermost layer of ours: every answer leaves through it, and no failure gets past it."""

import logging
import secrets
import time
from collections.abc import MutableMapping
from typing import Any, Final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headgate.api.errors import InternalErrorBody
from headgate.api.responses import json_response
from headgate.api.wire import encode

_log = logging.getLogger("headgate.api")
_access_log = logging.getLogger("headgate.api.access")

_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
)
_DEFAULTS: Final = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)


class Boundary:
    """Numbers requests, adds the headers of every answer, and turns a fault of ours into a 500.

    The id of the request stands in `x-request-id`, in `request.state.request_id`, in the body of a
    500, and in the log beside the traceback. `access_log` writes a line of JSON for each request.
    """

    def __init__(self, app: ASGIApp, *, access_log: bool = False) -> None:
        self._app = app
        self._writes_access = access_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif self._writes_access:
            await self._log_access(scope, receive, send)
        else:
            await self._answer(scope, receive, send)

    async def _log_access(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = time.monotonic()
        line: dict[str, Any] = {"method": scope["method"], "path": scope["path"]}
        try:
            await self._answer(scope, receive, _measuring(send, line))
        finally:
            state, route = scope["state"], scope.get("route")
            line["request_id"] = state["request_id"]
            line["route"] = None if route is None else route.path
            line["identity"] = state.get("identity", "")
            line["client"] = (scope.get("client") or ("",))[0]
            line["ms"] = int((time.monotonic() - begun) * 1000)
            _access_log.info(encode(line).decode())

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id
        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = list(message["headers"])
                present = {name for name, _ in headers}
                headers += _HEADERS
                headers += (header for header in _DEFAULTS if header[0] not in present)
                headers.append((b"x-request-id", request_id.encode()))
                message["headers"] = headers
            elif scope["method"] == "HEAD":
                # Not every server drops it.
                message = {**message, "body": b""}
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        except ClientDisconnect:
            return
        except Exception:
            _log.exception("request %s failed: %s %r", request_id, scope["method"], scope["path"])
            if started:
                # Only the server can still tell the client: it breaks off the answer.
                raise
            body = InternalErrorBody(error="internal error", request_id=request_id)
            await json_response(body, 500)(scope, receive, send_with_headers)


def _measuring(send: Send, line: MutableMapping[str, Any]) -> Send:
    """Sends on, and notes the status and the size of the answer."""
    line["status"], line["bytes"] = None, 0

    async def send_and_measure(message: Message) -> None:
        if message["type"] == "http.response.start":
            line["status"] = message["status"]
        line["bytes"] += len(message.get("body", b""))
        await send(message)

    return send_and_measure
