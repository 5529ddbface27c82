"""The outermost layer of ours: every answer leaves through it, and no failure gets past it."""

import logging
import secrets
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headgate.api.errors import InternalErrorBody
from headgate.api.responses import json_response

_log = logging.getLogger("headgate.api")

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
    500, and in the log beside the traceback.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
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
