"""Opening an encrypted payload for an admin, where the installation has something that opens it."""

import logging
from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from msgspec import Meta
from starlette.responses import Response

from headgate.api.auditing import audit_record
from headgate.api.config import PayloadRevealer
from headgate.api.errors import Refusal
from headgate.api.operations import Answer, operation, refused
from headgate.api.requests import ApiRequest
from headgate.api.responses import json_response
from headgate.client.payloads import UndecodablePayload
from headgate.model.access import Role
from headgate.model.job import Job

_NO_STORE: Final[Mapping[str, str]] = {"cache-control": "no-store"}
_HEADERS: Final = {"cache-control": "`no-store`."}

_log = logging.getLogger("headgate.api")


class Revealed(msgspec.Struct, frozen=True):
    """A payload as it was before it was encrypted."""

    plaintext: Annotated[bytes, Meta(description="At most 1048576 bytes.")]


def _refused(status: int, description: str, error: str) -> Answer:
    return refused(status, description, error, headers=_HEADERS)


@operation(
    "GET",
    "/jobs/{id}/payload/reveal",
    Answer(
        200,
        "The payload.",
        Revealed,
        headers=_HEADERS,
        examples={"payload": Revealed(b'{"user":17}')},
    ),
    _refused(403, "Not to this caller.", "payload reveal forbidden"),
    _refused(404, "Nothing opens payloads here.", "payload reveal is not available"),
    _refused(404, "No job has this id.", "no such job"),
    _refused(422, "It is not encrypted, or not with a key at hand.", "payload cannot be revealed"),
    _refused(500, "The revealer failed.", "payload reveal failed"),
    _refused(503, "What opens payloads cannot be reached now.", "payload reveal unavailable"),
    role=Role.ADMIN,
)
async def reveal_payload(request: ApiRequest, id: str) -> Response:
    """Open the encrypted payload of a job.

    Needs a revealer in the configuration of this instance. Who has seen what stands in the audit
    trail, unless the instance is read-only.
    """
    revealer = request.config.revealer
    if revealer is None:
        raise _refusal(404, "payload reveal is not available")
    if not request.sees_payloads:
        raise _refusal(403, "payload reveal forbidden")
    job = await request.store.inspection.job(id, include_payload=True)
    if job is None:
        raise _refusal(404, "no such job")
    plaintext = await _reveal(revealer, job, request)
    if not request.config.read_only:
        await request.store.audit.append(audit_record(request, 200))
    return json_response(Revealed(plaintext), headers=_NO_STORE)


async def _reveal(revealer: PayloadRevealer, job: Job, request: ApiRequest) -> bytes:
    try:
        return await revealer(job, request.caller.identity)
    except PermissionError:
        raise _refusal(403, "payload reveal forbidden") from None
    except (UndecodablePayload, ValueError):
        raise _refusal(422, "payload cannot be revealed") from None
    except OSError as error:
        _log.warning("the payload of job %s cannot be revealed now: %s", job.id, error)
        raise _refusal(503, "payload reveal unavailable") from None
    except Exception:
        _log.exception("the revealer failed on job %s", job.id)
        raise _refusal(500, "payload reveal failed") from None


def _refusal(status: int, message: str) -> Refusal:
    return Refusal(status, message, headers=_NO_STORE)
