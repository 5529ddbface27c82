"""Rate classes: how many tokens come in, and what they stand at."""

from typing import Annotated, ClassVar, Final

import msgspec
from msgspec import Meta
from starlette.responses import Response

from headgate.api.operations import Answer, operation, refused
from headgate.api.paging import BAD_LIMIT, PageQuery, page_answer, page_response
from headgate.api.requests import ApiRequest
from headgate.api.responses import empty_response, json_response
from headgate.api.wire import I64, narrower
from headgate.model.access import Role
from headgate.model.limits import MAX_MS
from headgate.model.policy import MAX_LIMIT, MAX_SCALED, RateClass, RateClassPolicy

_EXAMPLE: Final = RateClass(
    name="smtp",
    tokens_available=40,
    burst=100,
    limit_per_window=100,
    window_ms=60_000,
    jobs_waiting=3,
    paused=False,
)
_NOT_FOUND: Final = refused(404, "No rate class has this name.", "not found: rate class smtp")


class RateClassBody(msgspec.Struct, kw_only=True, frozen=True):
    """`limit` tokens come in per window, and at most `burst` of them are saved up."""

    example: ClassVar = {"limit": 100, "window_ms": 60_000, "burst": 100}

    limit: Annotated[
        I64,
        Meta(description="0 stops the class as `paused` does."),
        narrower(minimum=0, maximum=MAX_LIMIT),
    ]
    window_ms: Annotated[I64, narrower(minimum=1, maximum=MAX_MS)]
    burst: Annotated[
        Annotated[I64, narrower(minimum=1, maximum=MAX_SCALED)] | None,
        Meta(description="That of one window when absent; times the window at most 2^62."),
    ] = None
    paused: Annotated[bool, Meta(description="Let nothing pass, and resume empty.")] = False


@operation(
    "GET",
    "/rate-classes",
    page_answer(
        "A page of the rate classes by name.",
        RateClass,
        classes=[_EXAMPLE],
        links={"first": ("read_rate_class", {"name": "$response.body#/0/name"})},
    ),
    BAD_LIMIT,
)
async def list_rate_classes(request: ApiRequest, query: PageQuery) -> Response:
    """List rate classes.

    A paused one reads as limit 0 and tokens 0. `jobs_waiting` 1000 means at least as many.
    """
    return page_response(await request.store.policies.rate_classes(query.page))


@operation(
    "GET",
    "/rate-classes/{name}",
    Answer(200, "The rate class.", RateClass, examples={"class": _EXAMPLE}),
    _NOT_FOUND,
)
async def read_rate_class(request: ApiRequest, name: str) -> Response:
    """Read one rate class."""
    return json_response(await request.store.policies.rate_class(name))


@operation(
    "PUT",
    "/rate-classes/{name}",
    Answer(
        200,
        "Done. No body.",
        links={
            name: (name, {"name": "$request.path.name"})
            for name in ("read_rate_class", "delete_rate_class")
        },
    ),
    refused(
        400, "These terms cannot be.", "window_ms must be >= 1", "limit must be >= 0 and burst >= 1"
    ),
    role=Role.ADMIN,
)
async def put_rate_class(request: ApiRequest, name: str, body: RateClassBody) -> Response:
    """Make or change a rate class.

    A new one is full. A changed one keeps the tokens it holds, as far as the new burst allows.
    """
    policy = RateClassPolicy(
        limit=body.limit, window_ms=body.window_ms, burst=body.burst, paused=body.paused
    )
    await request.store.policies.put_rate_class(name, policy)
    return empty_response(200)


@operation(
    "DELETE",
    "/rate-classes/{name}",
    Answer(204, "Gone."),
    _NOT_FOUND,
    role=Role.ADMIN,
)
async def delete_rate_class(request: ApiRequest, name: str) -> Response:
    """Delete a rate class.

    Its jobs run unlimited from now on.
    """
    await request.store.policies.delete_rate_class(name)
    return empty_response()
