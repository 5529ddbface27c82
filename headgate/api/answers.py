"""What every operation of a kind may answer, stated once for the OpenAPI document."""

from collections.abc import Iterable
from typing import Any, Final

from headgate.api.body import MAX_BODY_BYTES
from headgate.api.errors import InternalErrorBody
from headgate.api.operations import Answer, Operation, refused

IDEMPOTENCY_KEY: Final[dict[str, Any]] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": True,
    "description": "1 to 255 visible ASCII characters, chosen anew for each intent and kept for"
    " its repetitions.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    "example": "5f2b7c1e-mail-17",
}

BAD_REQUEST: Final = refused(
    400,
    "The request cannot be served as it is; `error` names what is wrong.",
    "invalid path parameter",
    name="BadRequest",
)
BAD_MUTATION: Final = refused(
    400,
    BAD_REQUEST.description,
    "Idempotency-Key header is required on every mutating request",
    "bad json",
    name="BadMutation",
)
UNAUTHENTICATED: Final = refused(
    401,
    "Nobody is let in without saying who it is, where access is on.",
    "authentication required",
    headers={"www-authenticate": "`Bearer`."},
    name="Unauthenticated",
)
FORBIDDEN: Final = refused(
    403, "The caller has not the role for this.", "forbidden", name="Forbidden"
)
READ_ONLY: Final = refused(
    403,
    "This instance serves reads only, or the caller may not do this, or a browser sends it from the"
    " page of another site.",
    "read-only mode",
    "forbidden",
    "cross-origin requests are not allowed",
    name="Refused",
)
IN_PROGRESS: Final = refused(
    409,
    "A request with this Idempotency-Key is being carried out.",
    "a request with this idempotency key is in progress",
    name="InProgress",
)
KEY_REUSED: Final = refused(
    422,
    "The Idempotency-Key was used for something else.",
    "idempotency key was used with a different request",
    name="KeyReused",
)
OTHER_METHOD: Final = Answer(
    405,
    "For any other method on this path; `allow` names those it has. No body.",
    headers={"allow": "The methods of the path, between commas."},
    name="OtherMethod",
)
TOO_SLOW: Final = refused(
    408, "The body does not come.", "the request body does not come", name="TooSlow"
)
TOO_LARGE: Final = refused(
    413, "The body is too large.", f"request body exceeds {MAX_BODY_BYTES} bytes", name="TooLarge"
)
MEDIA_TYPE: Final = refused(
    415,
    "The body is not declared as JSON.",
    "expected Content-Type: application/json",
    name="WrongMediaType",
)
WRONG_SHAPE: Final = refused(
    422,
    "The body is JSON of another shape; the first missing field is named.",
    "missing field `kind`",
    "invalid request body",
    name="WrongShape",
)
INTERNAL_ERROR: Final = Answer(
    500,
    "A fault of Headgate; the log tells more.",
    InternalErrorBody,
    examples={
        "fault": InternalErrorBody(error="internal error", request_id="9f2c1a7be04d3c55"),
    },
    name="InternalError",
)
UNAVAILABLE: Final = refused(
    503,
    "The database cannot be used now; waiting may cure it.",
    "store unavailable: no connection: the database does not answer",
    name="Unavailable",
)
SHARED: Final = (
    BAD_REQUEST,
    BAD_MUTATION,
    UNAUTHENTICATED,
    FORBIDDEN,
    READ_ONLY,
    OTHER_METHOD,
    TOO_SLOW,
    IN_PROGRESS,
    TOO_LARGE,
    MEDIA_TYPE,
    WRONG_SHAPE,
    KEY_REUSED,
    INTERNAL_ERROR,
    UNAVAILABLE,
)


def shared_answers(operation: Operation) -> Iterable[Answer]:
    """The answers that follow from what kind of operation it is."""
    if operation.mutates:
        yield BAD_MUTATION
    elif operation.path_parameters or operation.query_type:
        yield BAD_REQUEST
    if not operation.public:
        yield UNAUTHENTICATED
    if operation.mutates:
        yield READ_ONLY
    elif not operation.public:
        yield FORBIDDEN
    yield OTHER_METHOD
    if operation.replays:
        yield IN_PROGRESS
    if operation.body is not None:
        yield TOO_SLOW
        yield _too_large(operation.body.max_bytes)
        yield MEDIA_TYPE
        yield WRONG_SHAPE
    if operation.replays:
        yield KEY_REUSED
    if operation.uses_store:
        yield UNAVAILABLE
    yield INTERNAL_ERROR


def _too_large(max_bytes: int) -> Answer:
    if max_bytes == MAX_BODY_BYTES:
        return TOO_LARGE
    error = f"request body exceeds {max_bytes} bytes"
    return refused(413, TOO_LARGE.description, error)
