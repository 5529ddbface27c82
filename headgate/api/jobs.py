"""Reading jobs: one by its id, many by what they have in common."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta
from starlette.responses import Response

from headgate.api.errors import Refusal, absent
from headgate.api.operations import Answer, operation, refused
from headgate.api.query import parse_integer
from headgate.api.query_language import search
from headgate.api.requests import ApiRequest
from headgate.api.responses import json_response
from headgate.api.wire import U32, narrower
from headgate.model.access import Role
from headgate.model.errors import InvalidRequest
from headgate.model.job import Job, JobFilter, JobPage
from headgate.model.queue import StateCounts
from headgate.store.inspection import MAX_PAGE

NO_SUCH_JOB: Final = refused(404, "No job has this id.", "no such job")

PAYLOADS_KEPT_BACK: Final = refused(
    403, "This instance never hands out what jobs carry.", "forbidden"
)

_JOB: Final = Job(
    id="mail-17",
    kind="email:welcome",
    queue="mail",
    state="retryable",
    schema_version=1,
    priority=5,
    attempt=1,
    crash_attempt=0,
    orphaned=False,
    max_attempts=25,
    partition_key="acme",
    rate_class="smtp",
    sticky_worker="",
    weight=1,
    fingerprint="8b50ed3c62f252c8bb4b67aedb280f0d",
    enqueued_at_ms=1_767_225_600_000,
    scheduled_at_ms=1_767_225_616_000,
    claimed_at_ms=1_767_225_600_120,
    periodic_origin=None,
    finalized_at_ms=None,
    errors=[
        {"at_ms": 1_767_225_600_900, "attempt": 1, "outcome": "retry", "error": "connection reset"}
    ],
    tags=["signup"],
)

_ROW_ID: Final = 2**63 - 1

ROW_ID_CURSOR = Annotated[
    str,
    Meta(description="`next_cursor` of the page before."),
    narrower(pattern=r"^[+-]?[0-9]{1,18}$"),
]

_Tags = Annotated[str | None, Meta(description="Tags between commas; empty ones do not count.")]


class ListJobs(msgspec.Struct, kw_only=True, frozen=True):
    """What to list. Every condition must hold; an absent parameter is no condition."""

    q: Annotated[
        str | None,
        Meta(
            description="Terms between white space, all of which must hold. `field:value` is exact,"
            " with the fields id, queue, state, kind, partition, rate_class, fingerprint, priority,"
            " tag (all of them) and tag_any (one of them); a term without a colon is the beginning"
            " of a kind. Wins over the other parameters.",
            examples=["queue:mail state:archived tag:billing"],
        ),
    ] = None
    queue: Annotated[str | None, Meta(description="The queue, exactly.")] = None
    state: Annotated[str | None, Meta(description="The state; an unknown one matches nothing.")] = (
        None
    )
    kind: Annotated[str | None, Meta(description="The kind, exactly.")] = None
    partition_key: Annotated[str | None, Meta(description="The partition, exactly.")] = None
    cursor: ROW_ID_CURSOR | None = None
    tags_all: _Tags = None
    tags_any: _Tags = None
    limit: Annotated[
        U32, Meta(description=f"Jobs on a page: 1 to {MAX_PAGE}, what lies outside is bounded.")
    ] = 50


class ReadJob(msgspec.Struct, kw_only=True, frozen=True):
    include_payload: Annotated[
        bool, Meta(description="Answer with `payload` and `metadata` too.")
    ] = False


class CountJobs(msgspec.Struct, kw_only=True, frozen=True):
    queue: Annotated[str | None, Meta(description="Of this queue alone.")] = None


@operation(
    "GET",
    "/jobs",
    Answer(
        200,
        "A page of jobs, newest first, and where the next one begins.",
        JobPage,
        examples={"page": JobPage(jobs=[_JOB], next_cursor="4711")},
        links={"first": ("read_job", {"id": "$response.body#/jobs/0/id"})},
    ),
)
async def list_jobs(request: ApiRequest, query: ListJobs) -> Response:
    """List jobs.

    Newest first. A page may be short, even empty, with `next_cursor` set: the search has come this
    far, continue. `next_cursor` null means that there is no more. Payloads are never listed.
    """
    conditions = JobFilter(
        queue=query.queue,
        state=query.state,
        kind=query.kind,
        partition_key=query.partition_key,
        tags_all=_split(query.tags_all),
        tags_any=_split(query.tags_any),
    )
    if query.q is not None:
        conditions = search(query.q, conditions)
    page = await request.store.inspection.jobs(
        conditions, cursor=parse_row_id(query.cursor), limit=max(1, min(query.limit, MAX_PAGE))
    )
    return json_response(page)


@operation(
    "GET",
    "/jobs/{id}",
    Answer(200, "The job.", Job, examples={"job": _JOB}),
    PAYLOADS_KEPT_BACK,
    NO_SUCH_JOB,
    role=(Role.VIEWER, Role.PRODUCER),
)
async def read_job(request: ApiRequest, id: str, query: ReadJob) -> Response:
    """Read one job.

    `payload` and `metadata` are left out unless `include_payload` asks for them.
    """
    if query.include_payload:
        require_payloads(request)
    job = await request.store.inspection.job(id, include_payload=query.include_payload)
    if job is None:
        raise absent("no such job")
    return json_response(job)


@operation(
    "GET",
    "/jobs/counts",
    Answer(
        200,
        "The states that occur.",
        StateCounts,
        examples={"counts": StateCounts({"available": 118, "running": 2}, approximate=False)},
    ),
)
async def count_jobs(request: ApiRequest, query: CountJobs) -> Response:
    """Count jobs by their states.

    `approximate` says that some of the newest changes are not counted yet.
    """
    return json_response(await request.store.counts(query.queue))


def parse_row_id(cursor: str | None) -> int | None:
    """Where a list of jobs goes on. Raises `InvalidRequest`."""
    row_id = None if cursor is None else parse_integer(cursor, -_ROW_ID - 1, _ROW_ID)
    if cursor is not None and row_id is None:
        raise InvalidRequest("bad cursor")
    return row_id


def require_payloads(request: ApiRequest) -> None:
    """Raises `Refusal` 403 where what jobs carry is kept back."""
    if not request.sees_payloads:
        raise Refusal(403, "forbidden")


def _split(tags: str | None) -> tuple[str, ...]:
    return tuple(tag for tag in (tags or "").split(",") if tag)
