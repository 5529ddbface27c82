"""Putting many jobs in at once: all of them or none, and which one is in the way."""

from collections.abc import Iterable, Sequence
from typing import Annotated, ClassVar, Final

import msgspec
from msgspec import Meta
from starlette.responses import Response

from headgate.api.answers import IN_PROGRESS, KEY_REUSED
from headgate.api.enqueue import (
    ENQUEUE_REFUSALS,
    ID_CONFLICT,
    EnqueueBody,
)
from headgate.api.errors import ErrorBody, Refusal
from headgate.api.operations import REPLAYED, Answer, operation
from headgate.api.replay import enqueue_once
from headgate.api.requests import ApiRequest
from headgate.api.responses import json_response
from headgate.api.wire import narrower
from headgate.model.access import Role
from headgate.model.envelope import Envelope, prepare
from headgate.model.errors import (
    Backpressure,
    DuplicateJob,
    EnqueueForbidden,
    FingerprintQuarantined,
    HeadgateError,
    IdConflict,
    InvalidRequest,
)
from headgate.model.identity import effective_unique_key, fingerprint
from headgate.model.limits import MAX_BATCH_BYTES, MAX_BATCH_JOBS

SINGLE_ONLY: Final = "unique replacement and debounce require a single-job enqueue"


class BatchBody(msgspec.Struct, kw_only=True, frozen=True):
    """Jobs to be, each as in a request of its own."""

    entries: ClassVar[str] = "jobs"
    example: ClassVar = {"jobs": [EnqueueBody.example, {"kind": "sms:welcome", "payload": "e30="}]}

    jobs: Annotated[
        list[EnqueueBody],
        Meta(
            description="Without `unique_replace` and `unique_debounce_ms`, which are for single"
            " jobs."
        ),
        narrower(minItems=1, maxItems=MAX_BATCH_JOBS),
    ]


class BatchedBody(msgspec.Struct, kw_only=True, frozen=True):
    """The ids of the jobs, in the order in which they were sent."""

    ids: list[str]


@operation(
    "POST",
    "/jobs/batch",
    Answer(
        201,
        "All of them are in.",
        BatchedBody,
        headers={REPLAYED: "`true` on an answer that is given again."},
        links={"first": ("read_job", {"id": "$response.body#/ids/0"})},
        examples={"ids": BatchedBody(ids=["mail-17", "hg019ad8a1b2c3f00dcafe5"])},
    ),
    Answer(
        400,
        "One of the jobs cannot be; none is in.",
        ErrorBody,
        examples={
            "one of them": ErrorBody(error="payload must be base64", index=1),
            "too many": ErrorBody(error="enqueue batch must contain at most 1000 jobs"),
        },
    ),
    IN_PROGRESS,
    KEY_REUSED,
    ID_CONFLICT,
    *ENQUEUE_REFUSALS,
    max_body_bytes=MAX_BATCH_BYTES,
    role=Role.PRODUCER,
    replays=False,
)
async def enqueue_batch(request: ApiRequest, body: BatchBody) -> Response:
    """Enqueue up to 1,000 jobs, all or none.

    A refusal is that of a single job; `index` is the position of the first one it is about, from 0.
    Repeating the request with the same Idempotency-Key gets the same answer.
    """
    if not body.jobs:
        raise InvalidRequest("enqueue batch must contain at least 1 job")
    if len(body.jobs) > MAX_BATCH_JOBS:
        raise InvalidRequest(f"enqueue batch must contain at most {MAX_BATCH_JOBS} jobs")
    envelopes = [_envelope(job, index) for index, job in enumerate(body.jobs)]
    return await enqueue_once(
        request,
        envelopes,
        answer=lambda enqueued: json_response(BatchedBody(ids=[each.id for each in enqueued]), 201),
        refuse=lambda error: _refusal(error, envelopes),
    )


def _refusal(error: HeadgateError, envelopes: Sequence[Envelope]) -> Refusal | HeadgateError:
    """The same error with the position of the job that it is about, if it is about one."""
    index = position(error, envelopes)
    return error if index is None else Refusal.of(error, index=index)


def _envelope(job: EnqueueBody, index: int) -> Envelope:
    try:
        envelope = job.envelope()
        if envelope.unique_replace or envelope.unique_debounce_ms:
            # What cannot be at all is told first, as for a single job.
            prepare([envelope])
            raise InvalidRequest(SINGLE_ONLY)
    except InvalidRequest as error:
        raise Refusal.of(error, index=index) from None
    return envelope


def position(error: HeadgateError, envelopes: Sequence[Envelope]) -> int | None:
    """Which of the jobs a batch was refused for; None when it is about no single one."""
    match error:
        case InvalidRequest():
            return _first(_is_refused(each) for each in envelopes)
        case IdConflict(job_id=job_id):
            # One that stands twice is in the way the second time.
            found = [index for index, each in enumerate(envelopes) if each.id == job_id]
            return found[min(1, len(found) - 1)] if found else None
        case FingerprintQuarantined(fingerprint=held):
            return _first(
                (each.fingerprint or fingerprint(each.kind, each.payload)) == held
                for each in envelopes
            )
        case Backpressure(queue=queue, limit=limit, current=current):
            found = [i for i, each in enumerate(envelopes) if (each.queue or "default") == queue]
            return found[min(max(0, limit - current), len(found) - 1)] if found else None
        case DuplicateJob(key=bytes() as key):
            found = [i for i, each in enumerate(envelopes) if _key(each) == key]
            return found[min(1, len(found) - 1)] if found else None
        case EnqueueForbidden(kind=kind):
            return _first(each.kind == kind for each in envelopes)
    return None


def _first(hits: Iterable[bool]) -> int | None:
    return next((index for index, hit in enumerate(hits) if hit), None)


def _is_refused(envelope: Envelope) -> bool:
    try:
        prepare([envelope])
    except InvalidRequest:
        return True
    return False


def _key(envelope: Envelope) -> bytes | None:
    return effective_unique_key(envelope.kind, envelope.unique_key, envelope.unique_exclude_kind)
