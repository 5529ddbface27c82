"""The trail of what was changed through the control API."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta
from starlette.responses import Response

from headgate.api.operations import Answer, operation
from headgate.api.paging import BAD_LIMIT
from headgate.api.requests import ApiRequest
from headgate.api.responses import json_response
from headgate.api.wire import U64, narrower
from headgate.model.access import Role
from headgate.model.audit import AuditEntry, AuditPage
from headgate.model.page import MAX_PAGE

_PAGE: Final = 50

_ENTRY: Final = AuditEntry(
    id=812,
    at_ms=1_767_225_600_000,
    identity="ada",
    role="operator",
    method="POST",
    route="/api/v1/queues/{queue}/pause",
    target="mail",
    idempotency_key="5f2b7c1e-pause-mail",
    status=204,
)


class AuditQuery(msgspec.Struct, kw_only=True, frozen=True):
    limit: Annotated[
        U64 | None,
        Meta(description=f"Entries on a page, 1 to {MAX_PAGE}."),
        narrower(minimum=1, maximum=MAX_PAGE, default=_PAGE),
    ] = None
    cursor: Annotated[U64 | None, Meta(description="`next_cursor` of the page before.")] = None


@operation(
    "GET",
    "/audit",
    Answer(
        200,
        "A page of the trail, newest first.",
        AuditPage,
        examples={"trail": AuditPage(entries=[_ENTRY], next_cursor=812)},
    ),
    BAD_LIMIT,
    role=Role.ADMIN,
)
async def list_audit_entries(request: ApiRequest, query: AuditQuery) -> Response:
    """List what was changed through this API, and by whom.

    Enqueues are not written down. Entries are kept for 90 days.
    """
    limit = _PAGE if query.limit is None else query.limit
    page = await request.store.audit.page(limit=limit, cursor=query.cursor)
    return json_response(page)
