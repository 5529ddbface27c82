"""The description of the API, served by the API: as OpenAPI, and as a page to read."""

from base64 import b64encode
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote

from starlette.responses import HTMLResponse, Response

from headgate.api.health import VERSION
from headgate.api.openapi import build_document
from headgate.api.operations import Answer, Operation, operation
from headgate.api.page import STYLE, render_page
from headgate.api.requests import ApiRequest
from headgate.api.wire import encode

_STYLE_HASH: Final = b64encode(sha256(STYLE.encode()).digest()).decode()
_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'"
)


@operation(
    "GET",
    "/openapi.json",
    Answer(200, "This document.", dict[str, Any]),
    uses_store=False,
)
async def openapi_document(request: ApiRequest) -> Response:
    """Describe every operation, as an OpenAPI 3.1 document."""
    server = quote(request.scope.get("root_path", "")) or "/"
    return Response(_document(request.operations, server), media_type="application/json")


@operation(
    "GET",
    "/docs",
    Answer(200, "A page of HTML.", str, media_type="text/html"),
    uses_store=False,
)
async def documentation_page(request: ApiRequest) -> Response:
    """Describe every operation, as a page to read.

    It loads nothing and runs nothing.
    """
    return HTMLResponse(_page(request.operations), headers={"content-security-policy": _POLICY})


# The prefix of a mounted application is part of it, and normally the same for every request.
@lru_cache(maxsize=8)
def _document(operations: tuple[Operation, ...], server: str) -> bytes:
    return encode(build_document(operations, VERSION, server))


@lru_cache(maxsize=2)
def _page(operations: tuple[Operation, ...]) -> str:
    return render_page(build_document(operations, VERSION))
