"""Schedules: what is to be done when, and what came of it."""

from typing import Annotated, ClassVar, Final

import msgspec
from msgspec import Meta
from starlette.responses import Response

from headgate.api.base64 import decode_base64
from headgate.api.enqueue import ENQUEUE_REFUSALS, EnqueuedBody, Kind, enqueued_body, put_in
from headgate.api.errors import absent
from headgate.api.operations import Answer, operation, refused
from headgate.api.paging import BAD_LIMIT, PageQuery, page_answer, page_response
from headgate.api.requests import ApiRequest
from headgate.api.responses import empty_response, json_response
from headgate.api.wire import I32, U32, U64, Base64, Count, Milliseconds, Name, narrower
from headgate.model.access import Role
from headgate.model.envelope import DEFAULT_MAX_ATTEMPTS, DEFAULT_QUEUE
from headgate.model.limits import MAX_INT32
from headgate.model.periodic import (
    MAX_EVENTS,
    MissedPolicy,
    Schedule,
    ScheduleDefinition,
    ScheduleEvent,
    ScheduleEventPage,
    TickOutcome,
    check_definition,
    manual_request,
)
from headgate.model.schedule import MAX_SPEC_BYTES

EXAMPLE: Final = Schedule(
    id="nightly-report",
    kind="report:daily",
    queue="reports",
    spec="CRON_TZ=Europe/Paris 30 2 * * *",
    next_run_ms=1_767_231_000_000,
    last_enqueued_ms=1_767_144_600_000,
    on_missed="skip",
    backfill_limit=0,
    paused=False,
    partition_key="",
    rate_class="",
    priority=0,
    max_attempts=25,
    retention_ms=0,
)
_EVENT: Final = ScheduleEvent(
    event_id=31,
    schedule_id="nightly-report",
    tick_ms=1_767_144_600_000,
    job_id="sched:nightly-report:1767144600000",
    outcome=TickOutcome.ENQUEUED,
    reason="accepted",
    recorded_at_ms=1_767_144_600_412,
)


class ScheduleBody(msgspec.Struct, kw_only=True, frozen=True):
    """A job, and when to make it. Null is as good as leaving out where it is allowed."""

    example: ClassVar = {
        "kind": "report:daily",
        "spec": "CRON_TZ=Europe/Paris 30 2 * * *",
        "queue": "reports",
    }

    kind: Kind
    spec: Annotated[
        str,
        Meta(
            description="`@every:<milliseconds>`, at the multiples of the period since the epoch;"
            " or cron with 5 fields, or 6 with seconds first, in UTC or behind `CRON_TZ=<zone> `."
        ),
        narrower(
            maxLength=MAX_SPEC_BYTES, examples=["@every:60000", "CRON_TZ=Europe/Paris 30 2 * * *"]
        ),
    ]
    payload: Base64 | None = ""
    queue: Annotated[Annotated[Name, narrower(minLength=1)] | None, Meta()] = DEFAULT_QUEUE
    partition_key: Name | None = ""
    rate_class: Name | None = ""
    priority: I32 | None = 0
    max_attempts: Annotated[U32, narrower(minimum=1, maximum=MAX_INT32)] | None = (
        DEFAULT_MAX_ATTEMPTS
    )
    retention_ms: Milliseconds | None = 0
    on_missed: Annotated[
        Annotated[str, narrower(enum=[each.value for each in MissedPolicy])] | None,
        Meta(
            description="What becomes of ticks that nobody was there for: one job for the newest"
            " (`skip` and `run_once`), or for up to `backfill_limit` of the newest (`backfill`)."
        ),
    ] = MissedPolicy.SKIP.value
    backfill_limit: Count | None = 0
    paused: bool = False

    def definition(self, schedule_id: str) -> ScheduleDefinition:
        """The same for the store, which judges it. Raises `InvalidRequest` for the payload."""
        payload = decode_base64("payload", self.payload or "")
        given = {
            name: value
            for name in self.__struct_fields__
            if name != "payload" and (value := getattr(self, name)) is not None
        }
        return ScheduleDefinition(id=schedule_id, payload=payload, **given)


class EventQuery(msgspec.Struct, kw_only=True, frozen=True):
    limit: Annotated[
        U32,
        Meta(description=f"Events on a page, 1 to {MAX_EVENTS}."),
        narrower(minimum=1, maximum=MAX_EVENTS),
    ] = 30
    cursor: Annotated[U64 | None, Meta(description="`next_cursor` of the page before.")] = None


@operation(
    "GET",
    "/periodic",
    page_answer("A page of the schedules by id.", Schedule, schedules=[EXAMPLE]),
    BAD_LIMIT,
)
async def list_schedules(request: ApiRequest, query: PageQuery) -> Response:
    """List schedules."""
    return page_response(await request.store.schedules.page(query.page))


@operation(
    "PUT",
    "/periodic/{id}",
    Answer(
        200,
        "Done. No body.",
        links={
            "run": ("run_schedule", {"id": "$request.path.id"}),
            "delete": ("delete_schedule", {"id": "$request.path.id"}),
        },
    ),
    refused(
        400,
        "The schedule could never work.",
        "bad cron `every day`: want 5 fields, or 6 with seconds",
        "on_missed must be skip|run_once|backfill",
    ),
    role=Role.ADMIN,
)
async def put_schedule(request: ApiRequest, id: str, body: ScheduleBody) -> Response:
    """Make or replace a schedule.

    With the same spec it keeps its next run, with another one it begins anew. What an enqueue of
    its jobs would refuse is refused here.
    """
    definition = body.definition(id)
    check_definition(definition)
    request.authorize([definition.job()])
    await request.store.schedules.put(definition)
    return empty_response(200)


@operation(
    "DELETE",
    "/periodic/{id}",
    Answer(204, "Gone."),
    refused(404, "No schedule has this id.", "not found: schedule nightly-report"),
    role=Role.ADMIN,
)
async def delete_schedule(request: ApiRequest, id: str) -> Response:
    """Delete a schedule.

    Its jobs and its events stay.
    """
    await request.store.schedules.delete(id)
    return empty_response()


@operation(
    "POST",
    "/periodic/{id}/run",
    Answer(
        202,
        "The job is in, or was already.",
        EnqueuedBody,
        examples={
            "new": EnqueuedBody(id="hg019ad8a1b2c3f00dcafe5"),
            "replayed": EnqueuedBody(id="hg019ad8a1b2c3f00dcafe5", replayed=True),
        },
        links={"job": ("read_job", {"id": "$response.body#/id"})},
    ),
    refused(404, "No schedule has this id.", "no such schedule"),
    *ENQUEUE_REFUSALS,
    role=Role.OPERATOR,
    replays=False,
)
async def run_schedule(request: ApiRequest, id: str) -> Response:
    """Make one job of a schedule now.

    Beside its ticks, which go on as before, and also while it is paused. Repeating the request with
    the same Idempotency-Key within 24 hours is answered with the id of the first job.
    """
    definition = await request.store.schedules.definition(id)
    if definition is None:
        raise absent("no such schedule")
    key = manual_request(id, request.idempotency_key)
    (enqueued,) = await put_in(request, [definition.job()], key)
    return json_response(enqueued_body(enqueued), 202)


@operation(
    "GET",
    "/periodic/{id}/enqueue-events",
    Answer(
        200,
        "A page of events, newest first.",
        ScheduleEventPage,
        examples={"events": ScheduleEventPage(events=[_EVENT], next_cursor=None)},
    ),
    refused(
        400,
        "`limit` is out of its bounds.",
        f"schedule event limit must be between 1 and {MAX_EVENTS}",
    ),
)
async def list_schedule_events(request: ApiRequest, id: str, query: EventQuery) -> Response:
    """List what became of the ticks of a schedule.

    The last 100 are kept, also after its end. A schedule that never was has none.
    """
    events = await request.store.schedules.events(id, limit=query.limit, cursor=query.cursor)
    return json_response(events)
