"""Whether the process lives, whether it can work, and what it is."""

from importlib.metadata import version
from typing import Final, Literal

import msgspec
from starlette.responses import PlainTextResponse, Response

from headgate.api.operations import ANYONE, Answer, operation
from headgate.api.requests import ApiRequest
from headgate.api.responses import json_response
from headgate.store.inspection import MAX_PAGE

VERSION: Final = version("headgate-queue")
APPROXIMATE_COUNT_THRESHOLD: Final = 50_000

_TEXT: Final = "text/plain"


class Limits(msgspec.Struct, kw_only=True):
    """Bounds of the answers: rows on a page, and rows looked at before a count is approximate."""

    max_page_size: int = MAX_PAGE
    approximate_count_threshold: int = APPROXIMATE_COUNT_THRESHOLD


class Meta(msgspec.Struct, kw_only=True):
    """What this installation is. `notifying`: workers are woken, not only polling."""

    version: str = VERSION
    backend: Literal["postgres"] = "postgres"
    capabilities: list[Literal["transactional", "notifying", "inspect"]]
    limits: Limits


@operation(
    "GET",
    "/healthz",
    Answer(200, "The process answers.", str, media_type=_TEXT, examples={"alive": "ok"}),
    role=ANYONE,
    uses_store=False,
)
async def healthz(request: ApiRequest) -> Response:
    """Tell whether the process answers.

    The database is not asked: restarting this process does not bring that one back.
    """
    return PlainTextResponse("ok")


@operation(
    "GET",
    "/readyz",
    Answer(200, "The database answers.", str, media_type=_TEXT, examples={"ready": "ready"}),
    role=ANYONE,
)
async def readyz(request: ApiRequest) -> Response:
    """Tell whether requests that need the database can be served.

    Reads one row by its key.
    """
    await request.store.inspection.ping()
    return PlainTextResponse("ready")


@operation(
    "GET",
    "/meta",
    Answer(
        200,
        "Version, capabilities and limits.",
        Meta,
        examples={
            "meta": Meta(capabilities=["transactional", "notifying", "inspect"], limits=Limits())
        },
    ),
    uses_store=False,
)
async def meta(request: ApiRequest) -> Response:
    """Describe this installation."""
    settings = request.store.settings
    answer = Meta(capabilities=["transactional"], limits=Limits())
    if settings.notify and not settings.pooler:
        answer.capabilities.append("notifying")
    answer.capabilities.append("inspect")
    return json_response(answer)
