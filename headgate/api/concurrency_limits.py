"""Concurrency limits: ceilings on what runs in each partition of a queue."""

from typing import Annotated, ClassVar, Final

import msgspec
from msgspec import Meta
from starlette.responses import Response

from headgate.api.operations import Answer, operation, refused
from headgate.api.paging import BAD_LIMIT, PageQuery, page_answer, page_response
from headgate.api.requests import ApiRequest
from headgate.api.responses import empty_response, json_response
from headgate.api.wire import U64, Name, narrower
from headgate.model.access import Role
from headgate.model.policy import MAX_INT64, ConcurrencyLimit, Saturation

_EXAMPLE: Final = ConcurrencyLimit(
    name="mail-per-tenant", queue="mail", max_concurrent=4, on_saturated="queue"
)
_NOT_FOUND: Final = refused(
    404, "No concurrency limit has this name.", "not found: concurrency limit mail-per-tenant"
)


class ConcurrencyLimitBody(msgspec.Struct, kw_only=True, frozen=True):
    """At most `max_concurrent` jobs run in each partition of the queue."""

    example: ClassVar = {
        "queue": "mail",
        "max_concurrent": 4,
        "on_saturated": "queue",
    }

    queue: Annotated[Name, narrower(minLength=1)]
    max_concurrent: Annotated[U64, narrower(minimum=1, maximum=MAX_INT64)]
    on_saturated: Annotated[
        str,
        Meta(
            description="What becomes of a job that is too many: it waits (`queue`), is archived"
            " (`discard`), is cancelled (`cancel_incoming`), or the oldest that runs is cancelled"
            " in its place (`cancel_running`)."
        ),
        narrower(enum=[each.value for each in Saturation]),
    ]


@operation(
    "GET",
    "/concurrency-limits",
    page_answer("A page of the concurrency limits by name.", ConcurrencyLimit, limits=[_EXAMPLE]),
    BAD_LIMIT,
)
async def list_concurrency_limits(request: ApiRequest, query: PageQuery) -> Response:
    """List concurrency limits."""
    return page_response(await request.store.policies.concurrency_limits(query.page))


@operation(
    "GET",
    "/concurrency-limits/{name}",
    Answer(200, "The concurrency limit.", ConcurrencyLimit, examples={"limit": _EXAMPLE}),
    _NOT_FOUND,
)
async def read_concurrency_limit(request: ApiRequest, name: str) -> Response:
    """Read one concurrency limit."""
    return json_response(await request.store.policies.concurrency_limit(name))


@operation(
    "PUT",
    "/concurrency-limits/{name}",
    Answer(
        200,
        "Done. No body.",
        links={
            name: (name, {"name": "$request.path.name"})
            for name in ("read_concurrency_limit", "delete_concurrency_limit")
        },
    ),
    refused(
        400,
        "This limit cannot be.",
        "name and queue must not be empty",
        "max_concurrent must be >= 1",
        "unknown saturation strategy `wait`",
    ),
    refused(
        409,
        "The queue has a limit of another name.",
        "queue mail already has the concurrency limit mail-per-tenant",
    ),
    role=Role.ADMIN,
)
async def put_concurrency_limit(
    request: ApiRequest, name: str, body: ConcurrencyLimitBody
) -> Response:
    """Make or change a concurrency limit.

    A queue has one at most. What runs already goes on, also above a lower limit.
    """
    limit = ConcurrencyLimit(
        name=name,
        queue=body.queue,
        max_concurrent=body.max_concurrent,
        on_saturated=body.on_saturated,
    )
    await request.store.policies.put_concurrency_limit(limit)
    return empty_response(200)


@operation(
    "DELETE",
    "/concurrency-limits/{name}",
    Answer(204, "Gone."),
    _NOT_FOUND,
    role=Role.ADMIN,
)
async def delete_concurrency_limit(request: ApiRequest, name: str) -> Response:
    """Delete a concurrency limit."""
    await request.store.policies.delete_concurrency_limit(name)
    return empty_response()
