"""Putting jobs in: the body of a job, and what becomes of it."""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Final, Literal

import msgspec
from msgspec import Meta
from starlette.responses import Response

from headgate.api.base64 import decode_base64
from headgate.api.errors import (
    BackpressureBody,
    CircuitBody,
    DuplicateBody,
    ForbiddenBody,
    QuarantinedBody,
)
from headgate.api.operations import Answer, operation, refused
from headgate.api.requests import ApiRequest
from headgate.api.responses import json_response
from headgate.api.wire import I32, U32, Base64, Count, Milliseconds, Name, narrower
from headgate.model.access import Role
from headgate.model.envelope import DEFAULT_MAX_ATTEMPTS, DEFAULT_QUEUE, Envelope
from headgate.model.errors import DuplicateJob, InvalidRequest
from headgate.model.job import Enqueued, RequestKey
from headgate.model.limits import MAX_PAYLOAD_BYTES, MAX_TAG_BYTES, MAX_TAGS

MAX_PAYLOAD_TEXT: Final = (MAX_PAYLOAD_BYTES + 2) // 3 * 4

Kind = Annotated[
    str,
    Meta(description="What the job is; workers choose their handler by it."),
    narrower(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_\-\[\]<>/.:+]{0,127}$", examples=["email:welcome"]),
]
_Tag = Annotated[str, narrower(minLength=1, maxLength=MAX_TAG_BYTES, pattern=r"^[\u0001-\u007f]+$")]


class EnqueueBody(msgspec.Struct, kw_only=True, frozen=True):
    """A job to be. Null is as good as leaving out where it is allowed."""

    example: ClassVar = {
        "kind": "email:welcome",
        "payload": "eyJ1c2VyIjoxN30=",
        "queue": "mail",
        "priority": 5,
        "tags": ["signup"],
    }

    kind: Kind
    schema_version: Annotated[
        Count | None, Meta(description="Version of the payload's format; 0 means 1.")
    ] = 1
    payload: Annotated[
        Base64,
        Meta(description=f"At most {MAX_PAYLOAD_BYTES} bytes, opaque to Headgate."),
        narrower(maxLength=MAX_PAYLOAD_TEXT),
    ]
    queue: Annotated[Name | None, Meta(description=f"Empty means `{DEFAULT_QUEUE}`.")] = ""
    priority: Annotated[I32 | None, Meta(description="Higher goes first within a queue.")] = 0
    partition_key: Annotated[
        Name | None, Meta(description="Jobs of one queue share its workers in turns by this key.")
    ] = ""
    rate_class: Annotated[
        Name | None, Meta(description="The rate limit the job counts against; empty for none.")
    ] = ""
    weight: Annotated[
        Annotated[U32, narrower(minimum=1, maximum=2**31 - 1)] | None,
        Meta(description="Tokens of its rate class that the job takes."),
    ] = 1
    scheduled_at_ms: Annotated[
        Milliseconds | None, Meta(description="When it may run, since the epoch; 0 means now.")
    ] = 0
    unique_key: Annotated[
        Base64 | None,
        Meta(description="At most 1024 bytes. One job holds a key at a time; empty is a key."),
    ] = None
    unique_window_ms: Annotated[
        Milliseconds | None,
        Meta(description="How long the key is held, whatever the job does; 0: until it ends."),
    ] = 0
    unique_replace: Annotated[
        Annotated[U32, narrower(maximum=15)] | None,
        Meta(
            description="What the waiting holder of the key takes over from this request: 1 payload"
            " + 2 scheduled_at_ms + 4 priority + 8 max_attempts."
        ),
    ] = 0
    unique_debounce_ms: Annotated[
        Milliseconds | None,
        Meta(description="Runs only after the key was silent for so long, with the last payload."),
    ] = 0
    unique_exclude_kind: Annotated[
        bool, Meta(description="The key stands for all kinds together.")
    ] = False
    tags: Annotated[list[_Tag], narrower(maxItems=MAX_TAGS, uniqueItems=True)] = []
    pending: Annotated[bool, Meta(description="Wait until an operator promotes the job.")] = False
    sticky_worker: Annotated[
        str,
        Meta(description="Id of the only worker that may run it."),
        narrower(maxLength=255, pattern=r"^[\u0001-\u007f]*$"),
    ] = ""
    max_attempts: Annotated[Count | None, Meta(description=f"0 means {DEFAULT_MAX_ATTEMPTS}.")] = 0
    retention_ms: Annotated[
        Milliseconds | None, Meta(description="How long a finished job is kept.")
    ] = 0
    id: Annotated[
        Annotated[Name, narrower(minLength=1)] | None,
        Meta(description="Chosen by the caller; generated when absent."),
    ] = None

    def payload_bytes(self) -> bytes:
        """What `payload` stands for. Raises `InvalidRequest`."""
        return decode_base64("payload", self.payload)

    def envelope(self) -> Envelope:
        """The job for the store. Raises `InvalidRequest` for what the store cannot see any more:
        an explicit 0 or "", and what is no base64.
        """
        if self.weight == 0:
            raise InvalidRequest("weight must be >= 1")
        if self.unique_replace and self.unique_key is None:
            raise InvalidRequest("unique_replace requires caller-supplied unique_key")
        payload = self.payload_bytes()
        unique_key = (
            None if self.unique_key is None else decode_base64("unique_key", self.unique_key)
        )
        if self.id == "":
            raise InvalidRequest("envelope id must not be empty")
        return Envelope(
            id=self.id or "",
            kind=self.kind,
            schema_version=self.schema_version or 0,
            payload=payload,
            queue=self.queue or "",
            partition_key=self.partition_key or "",
            rate_class=self.rate_class or "",
            weight=self.weight or 0,
            priority=self.priority or 0,
            max_attempts=self.max_attempts or 0,
            scheduled_at_ms=self.scheduled_at_ms or 0,
            retention_ms=self.retention_ms or 0,
            unique_key=unique_key,
            unique_window_ms=self.unique_window_ms or 0,
            unique_replace=self.unique_replace or 0,
            unique_debounce_ms=self.unique_debounce_ms or 0,
            unique_exclude_kind=self.unique_exclude_kind,
            tags=tuple(self.tags),
            pending=self.pending,
            sticky_worker=self.sticky_worker,
        )


class EnqueuedBody(msgspec.Struct, kw_only=True, frozen=True):
    """`replayed` is there when an earlier request with this Idempotency-Key made the job."""

    id: str
    replayed: Literal[True] | msgspec.UnsetType = msgspec.UNSET


JOB_LINKS: Final = {
    name: (name, {"id": "$response.body#/id"})
    for name in ("read_job", "explain_admission", "cancel_job", "reschedule_job", "delete_job")
}
"""Where to go from an answer that names a job."""

ENQUEUE_REFUSALS: Final = (
    Answer(
        403,
        "The authorizer denies a job of this kind.",
        ForbiddenBody,
        examples={"denied": ForbiddenBody(error="enqueue forbidden", kind="billing:charge")},
    ),
    Answer(
        409,
        "The unique key is held by another job.",
        DuplicateBody,
        examples={
            "duplicate": DuplicateBody(
                error="duplicate unique key", existing_id="mail-17", replaced=False
            )
        },
    ),
    Answer(
        423,
        "Jobs like this one killed their workers too often.",
        QuarantinedBody,
        examples={
            "quarantined": QuarantinedBody(
                error="fingerprint is quarantined", fingerprint="8b50ed3c62f252c8bb4b67aedb280f0d"
            )
        },
    ),
    Answer(
        429,
        "The queue is full; nothing was written.",
        BackpressureBody,
        examples={
            "full": BackpressureBody(
                error="enqueue backpressure", queue="mail", limit=1000, current=1000, incoming=1
            )
        },
    ),
    refused(
        500,
        "A middleware of this installation turned it down, in its own words.",
        "no jobs on Sundays",
    ),
    Answer(
        503,
        "The database did not answer several times and is left alone for now.",
        CircuitBody,
        examples={
            "circuit open": CircuitBody(
                error="enqueue circuit open", retry_after_ms=42_000, state="open"
            )
        },
    ),
)
"""What every enqueue may be answered beside its success."""

ID_CONFLICT: Final = refused(409, "The id belongs to another job.", "id conflict: job mail-17")


async def put_in(
    request: ApiRequest, envelopes: Sequence[Envelope], key: RequestKey | None = None
) -> list[Enqueued]:
    """Enqueues for a caller of the API: the one way by which its jobs get in."""
    return await request.enqueue(envelopes, key=key)


def enqueued_body(enqueued: Enqueued) -> EnqueuedBody:
    """The answer for one job."""
    return EnqueuedBody(id=enqueued.id, replayed=True if enqueued.replayed else msgspec.UNSET)


@operation(
    "POST",
    "/jobs",
    Answer(
        201,
        "The job is in, or was already.",
        EnqueuedBody,
        examples={
            "new": EnqueuedBody(id="hg019ad8a1b2c3f00dcafe5"),
            "replayed": EnqueuedBody(id="hg019ad8a1b2c3f00dcafe5", replayed=True),
        },
        links=JOB_LINKS,
    ),
    ID_CONFLICT,
    *ENQUEUE_REFUSALS,
    role=Role.PRODUCER,
    replays=False,
)
async def enqueue_job(request: ApiRequest, body: EnqueueBody) -> Response:
    """Enqueue one job.

    Without a `unique_key` the Idempotency-Key makes one job per kind for 24 hours: a repeated
    request is answered 201 with the id of that job and `replayed`, whatever has become of it. An
    `id` that exists with the same kind, payload and queue succeeds again.

    With `unique_debounce_ms` and no `unique_key` the Idempotency-Key is what has to be silent: a
    repetition is answered alike, and the waiting job takes its payload and tags and waits anew.
    """
    envelope = body.envelope()
    if envelope.unique_key is None and envelope.unique_debounce_ms > 0:
        return json_response(enqueued_body(await _debounced(request, envelope)), 201)
    key = (
        RequestKey(scope=envelope.kind, key=request.idempotency_key)
        if envelope.unique_key is None
        else None
    )
    (enqueued,) = await put_in(request, [envelope], key)
    return json_response(enqueued_body(enqueued), 201)


async def _debounced(request: ApiRequest, envelope: Envelope) -> Enqueued:
    key = b"idem:" + request.idempotency_key.encode()
    try:
        (enqueued,) = await put_in(request, [msgspec.structs.replace(envelope, unique_key=key)])
    except DuplicateJob as duplicate:
        return Enqueued(duplicate.existing_id, replayed=True)
    return enqueued
