"""The archive: jobs that were evicted and of which a copy is kept."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta
from starlette.responses import Response

from headgate.api.operations import Answer, operation, refused
from headgate.api.paging import BAD_LIMIT
from headgate.api.requests import ApiRequest
from headgate.api.responses import json_response
from headgate.api.wire import U64, narrower
from headgate.model.archive import ArchivedJob, ArchivePage
from headgate.model.page import MAX_PAGE

_PAGE: Final = 50
_JOB: Final = ArchivedJob(
    id="mail-17",
    kind="email:welcome",
    queue="mail",
    state="archived",
    fingerprint="8b50ed3c62f252c8bb4b67aedb280f0d",
    attempt=25,
    crash_attempt=0,
    errors=[{"at_ms": 1_767_225_600_000, "attempt": 25, "outcome": "retry", "error": "no route"}],
    finalized_at_ms=1_767_225_600_000,
    evicted_at_ms=1_769_817_600_000,
    archive_retention_ms=7_776_000_000,
)


class ArchiveQuery(msgspec.Struct, kw_only=True, frozen=True):
    queue: Annotated[str, Meta(description="The queue that the jobs were in.")]
    limit: Annotated[
        U64 | None,
        Meta(description=f"Jobs on a page, 1 to {MAX_PAGE}."),
        narrower(minimum=1, maximum=MAX_PAGE, default=_PAGE),
    ] = None
    cursor: Annotated[
        str | None,
        Meta(description="`next_cursor` of the page before."),
        narrower(pattern=r"^[0-9]{1,18}-[^\u0000]+$"),
    ] = None


@operation(
    "GET",
    "/archive",
    Answer(
        200,
        "A page of the archive, evicted last first.",
        ArchivePage,
        examples={"page": ArchivePage(jobs=[_JOB], next_cursor="1769817600000-mail-17")},
    ),
    BAD_LIMIT,
    refused(400, "No page gave this cursor.", "bad cursor"),
)
async def list_archived_jobs(request: ApiRequest, query: ArchiveQuery) -> Response:
    """List evicted jobs of a queue that has an archive policy.

    Without payloads. A job is kept for the retention that the policy had when it was evicted.
    """
    limit = _PAGE if query.limit is None else query.limit
    page = await request.store.archive.page(query.queue, limit=limit, cursor=query.cursor)
    return json_response(page)
