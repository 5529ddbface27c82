"""One schedule: reading it, stopping it, and when a spec would be due."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, structs
from starlette.responses import Response

from headgate.api.errors import absent
from headgate.api.jobs import PAYLOADS_KEPT_BACK, require_payloads
from headgate.api.operations import Answer, operation, refused
from headgate.api.periodic import EXAMPLE
from headgate.api.queues import DONE
from headgate.api.requests import ApiRequest
from headgate.api.responses import empty_response, json_response
from headgate.api.wire import U32, narrower
from headgate.model.access import Role
from headgate.model.errors import InvalidRequest
from headgate.model.periodic import ScheduleDetail
from headgate.model.schedule import MAX_SPEC_BYTES

MAX_PREVIEW: Final = 100

_EXAMPLE: Final = ScheduleDetail(**structs.asdict(EXAMPLE), payload=b"{}")
_UNKNOWN: Final = refused(404, "No schedule has this id.", "not found: schedule nightly-report")


class ReadSchedule(msgspec.Struct, kw_only=True, frozen=True):
    include_payload: Annotated[bool, Meta(description="Answer with `payload` too, for admins.")] = (
        False
    )


class TickQuery(msgspec.Struct, kw_only=True, frozen=True):
    spec: Annotated[
        str,
        Meta(description="As for a schedule.", examples=["CRON_TZ=Europe/Paris 30 2 * * *"]),
        narrower(maxLength=MAX_SPEC_BYTES),
    ]
    count: Annotated[
        U32,
        Meta(description=f"How many are wanted, 1 to {MAX_PREVIEW}."),
        narrower(minimum=1, maximum=MAX_PREVIEW),
    ] = 5


class Ticks(msgspec.Struct, frozen=True):
    """Instants at which a spec is due, in order; fewer than asked for where the calendar ends."""

    ticks: list[int]


@operation(
    "GET",
    "/periodic/{id}",
    Answer(200, "The schedule.", ScheduleDetail, examples={"schedule": _EXAMPLE}),
    PAYLOADS_KEPT_BACK,
    refused(404, "No schedule has this id.", "no such schedule"),
)
async def read_schedule(request: ApiRequest, id: str, query: ReadSchedule) -> Response:
    """Read one schedule.

    `payload` is left out unless `include_payload` asks for it.
    """
    if query.include_payload:
        require_payloads(request)
    found = await request.store.schedules.get(id, include_payload=query.include_payload)
    if found is None:
        raise absent("no such schedule")
    return json_response(found)


@operation("POST", "/periodic/{id}/pause", DONE, _UNKNOWN, role=Role.OPERATOR)
async def pause_schedule(request: ApiRequest, id: str) -> Response:
    """Stop the ticks of a schedule.

    What it made already goes on, and it can still be run by hand.
    """
    await request.store.schedules.set_paused(id, paused=True)
    return empty_response()


@operation("POST", "/periodic/{id}/resume", DONE, _UNKNOWN, role=Role.OPERATOR)
async def resume_schedule(request: ApiRequest, id: str) -> Response:
    """Let the ticks of a schedule go on.

    Those that were missed meanwhile are made up for as its `on_missed` says.
    """
    await request.store.schedules.set_paused(id, paused=False)
    return empty_response()


@operation(
    "GET",
    "/ticks",
    Answer(
        200,
        "The next ticks.",
        Ticks,
        examples={"nightly": Ticks([1_767_231_000_000, 1_767_317_400_000])},
    ),
    refused(
        400,
        "The spec is not understood, or so many are not given.",
        "bad cron `every day`: want 5 fields, or 6 with seconds",
        f"count must be between 1 and {MAX_PREVIEW}",
    ),
)
async def preview_ticks(request: ApiRequest, query: TickQuery) -> Response:
    """Tell when a spec would be due from now on."""
    if not 1 <= query.count <= MAX_PREVIEW:
        raise InvalidRequest(f"count must be between 1 and {MAX_PREVIEW}")
    return json_response(Ticks(await request.store.schedules.preview(query.spec, query.count)))
