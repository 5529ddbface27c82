"""What an operator does to jobs: one by its id, or a list of ids."""

from typing import Annotated, ClassVar, Final

import msgspec
from msgspec import Meta
from starlette.responses import Response

from headgate.api.base64 import decode_base64
from headgate.api.enqueue import MAX_PAYLOAD_TEXT
from headgate.api.errors import DuplicateBody, absent
from headgate.api.jobs import NO_SUCH_JOB
from headgate.api.operations import Answer, operation, refused
from headgate.api.requests import ApiRequest
from headgate.api.responses import empty_response, json_response
from headgate.api.wire import Base64, Count, Milliseconds, narrower
from headgate.model.access import Role
from headgate.model.actions import MAX_ACTION_IDS, ActionFailure, ActionReport
from headgate.model.errors import NotFound
from headgate.model.operators import ARCHIVE_REFUSED, BULK_ACTIONS

_DONE: Final = Answer(204, "Done.")
_NOT_FOUND: Final = refused(404, "No job has this id.", "not found: job mail-17")
_KEY_TAKEN: Final = Answer(
    409,
    "Another job has its unique key by now.",
    DuplicateBody,
    examples={
        "taken": DuplicateBody(error="duplicate unique key", existing_id="mail-18", replaced=False)
    },
)


_JobId = Annotated[str, narrower(pattern=r"^[^\u0000]*$")]


def _undefined(text: str) -> Answer:
    return refused(400, "The action is not defined from the state of the job.", text)


class RescheduleBody(msgspec.Struct, kw_only=True, frozen=True):
    """When the job is to run."""

    example: ClassVar = {"scheduled_at_ms": 1_767_225_600_000}

    scheduled_at_ms: Annotated[Milliseconds, Meta(description="Since the epoch.")]


class PayloadBody(msgspec.Struct, kw_only=True, frozen=True):
    """What the job is to carry from now on."""

    example: ClassVar = {"payload": "eyJ1c2VyIjoxOH0="}

    payload: Annotated[Base64, narrower(maxLength=MAX_PAYLOAD_TEXT)]
    schema_version: Annotated[
        Count | None, Meta(description="That of the job when absent; 0 means 1.")
    ] = None


class ActionsBody(msgspec.Struct, kw_only=True, frozen=True):
    """What to do, and to which jobs."""

    example: ClassVar = {"action": "retry", "ids": ["mail-17", "mail-18"]}

    action: Annotated[str, narrower(enum=[each.value for each in BULK_ACTIONS])]
    ids: Annotated[list[_JobId], narrower(maxItems=MAX_ACTION_IDS)]


@operation(
    "POST",
    "/jobs/{id}/retry",
    _DONE,
    _undefined(
        "operator_retry is only defined from archived, cancelled, or undecodable;"
        " job mail-17 is available"
    ),
    _NOT_FOUND,
    _KEY_TAKEN,
    role=Role.OPERATOR,
)
async def retry_job(request: ApiRequest, id: str) -> Response:
    """Make an archived, cancelled or undecodable job available again.

    Its attempts are not forgotten: one that had used them up has one more.
    """
    await request.store.control.retry(id)
    return empty_response()


@operation(
    "POST",
    "/jobs/{id}/cancel",
    _DONE,
    _undefined("operator_cancel is not defined from completed"),
    _NOT_FOUND,
    role=Role.OPERATOR,
)
async def cancel_job(request: ApiRequest, id: str) -> Response:
    """Cancel a job that has not ended.

    A running one loses its lease at once; its handler learns of it when it reports next.
    """
    await request.store.control.cancel(id)
    return empty_response()


@operation(
    "POST",
    "/jobs/{id}/promote",
    _DONE,
    _undefined("operator_promote is defined only from pending"),
    _NOT_FOUND,
    _KEY_TAKEN,
    role=Role.OPERATOR,
)
async def promote_job(request: ApiRequest, id: str) -> Response:
    """Make a pending job available."""
    await request.store.control.promote(id)
    return empty_response()


@operation(
    "POST",
    "/jobs/{id}/reschedule",
    _DONE,
    _undefined(
        "reschedule is only defined for scheduled/retryable; job mail-17 is available",
    ),
    _NOT_FOUND,
    role=Role.OPERATOR,
)
async def reschedule_job(request: ApiRequest, id: str, body: RescheduleBody) -> Response:
    """Move the due time of a scheduled or retryable job."""
    await request.store.control.reschedule(id, body.scheduled_at_ms)
    return empty_response()


@operation(
    "PUT",
    "/jobs/{id}/payload",
    _DONE,
    refused(
        400,
        "The payload cannot be, or the job is running.",
        "cannot edit a running job's payload",
        "payload must be base64",
    ),
    NO_SUCH_JOB,
    role=Role.ADMIN,
)
async def edit_payload(request: ApiRequest, id: str, body: PayloadBody) -> Response:
    """Replace the payload of a job that does not run.

    Its fingerprint follows.
    """
    payload = decode_base64("payload", body.payload)
    try:
        await request.store.control.edit_payload(id, payload, schema_version=body.schema_version)
    except NotFound:
        raise absent("no such job") from None
    return empty_response()


@operation(
    "DELETE",
    "/jobs/{id}",
    _DONE,
    _undefined("cannot delete a running job; cancel it first"),
    _NOT_FOUND,
    role=Role.OPERATOR,
)
async def delete_job(request: ApiRequest, id: str) -> Response:
    """Delete a job that does not run."""
    await request.store.control.delete(id)
    return empty_response()


@operation(
    "POST",
    "/jobs/actions",
    Answer(
        200,
        "What became of each.",
        ActionReport,
        examples={
            "report": ActionReport(
                succeeded=["mail-17"],
                failed=[ActionFailure(id="mail-18", reason="not found: job mail-18")],
            ),
            "archive": ActionReport(
                succeeded=[], failed=[ActionFailure(id="mail-17", reason=ARCHIVE_REFUSED)]
            ),
        },
    ),
    refused(
        400,
        "There is no such action, or there are too many ids.",
        "unknown action `explode`",
        "at most 1000 ids per call",
    ),
    role=Role.OPERATOR,
)
async def act_on_jobs(request: ApiRequest, body: ActionsBody) -> Response:
    """Retry, cancel or delete up to 1,000 jobs.

    A job that cannot be changed fails alone, in the words that its single action would have. An
    outage fails the whole list, of which nothing was done then. `archive` is refused for each:
    jobs get there only by their own end.
    """
    return json_response(await request.store.control.act(body.action, body.ids))
