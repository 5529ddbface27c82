"""What every operation of a kind may answer, stated once for the OpenAPI document."""

from collections.abc import Iterable
from typing import Any, Final

from headgate.api.body import MAX_BODY_BYTES
from headgate.api.errors import ErrorBody, InternalErrorBody
from headgate.api.operations import Answer, Operation

IDEMPOTENCY_KEY: Final[dict[str, Any]] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": True,
    "description": "1 to 255 visible ASCII characters, chosen anew for each intent and kept for"
    " its repetitions.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    "example": "5f2b7c1e-mail-17",
}

BAD_REQUEST: Final = Answer(
    400,
    "The request cannot be served as it is; `error` names what is wrong.",
    ErrorBody,
    examples={"path": ErrorBody(error="invalid path parameter")},
    name="BadRequest",
)
BAD_MUTATION: Final = Answer(
    400,
    BAD_REQUEST.description,
    ErrorBody,
    examples={
        "no key": ErrorBody(error="Idempotency-Key header is required on every mutating request"),
        "no JSON": ErrorBody(error="bad json"),
    },
    name="BadMutation",
)
UNAUTHENTICATED: Final = Answer(
    401,
    "Nobody is let in without saying who it is, where access is on.",
    ErrorBody,
    headers={"www-authenticate": "`Bearer`."},
    examples={"unknown": ErrorBody(error="authentication required")},
    name="Unauthenticated",
)
FORBIDDEN: Final = Answer(
    403,
    "The caller has not the role for this.",
    ErrorBody,
    examples={"role": ErrorBody(error="forbidden")},
    name="Forbidden",
)
READ_ONLY: Final = Answer(
    403,
    "This instance serves reads only, or the caller may not do this, or a browser sends it from the"
    " page of another site.",
    ErrorBody,
    examples={
        "read-only": ErrorBody(error="read-only mode"),
        "role": ErrorBody(error="forbidden"),
        "origin": ErrorBody(error="cross-origin requests are not allowed"),
    },
    name="Refused",
)
IN_PROGRESS: Final = Answer(
    409,
    "A request with this Idempotency-Key is being carried out.",
    ErrorBody,
    examples={"in progress": ErrorBody(error="a request with this idempotency key is in progress")},
    name="InProgress",
)
KEY_REUSED: Final = Answer(
    422,
    "The Idempotency-Key was used for something else.",
    ErrorBody,
    examples={"key reused": ErrorBody(error="idempotency key was used with a different request")},
    name="KeyReused",
)
OTHER_METHOD: Final = Answer(
    405,
    "For any other method on this path; `allow` names those it has. No body.",
    headers={"allow": "The methods of the path, between commas."},
    name="OtherMethod",
)
TOO_SLOW: Final = Answer(
    408,
    "The body does not come.",
    ErrorBody,
    examples={"too slow": ErrorBody(error="the request body does not come")},
    name="TooSlow",
)
TOO_LARGE: Final = Answer(
    413,
    "The body is too large.",
    ErrorBody,
    examples={"too large": ErrorBody(error=f"request body exceeds {MAX_BODY_BYTES} bytes")},
    name="TooLarge",
)
MEDIA_TYPE: Final = Answer(
    415,
    "The body is not declared as JSON.",
    ErrorBody,
    examples={"media type": ErrorBody(error="expected Content-Type: application/json")},
    name="WrongMediaType",
)
WRONG_SHAPE: Final = Answer(
    422,
    "The body is JSON of another shape; the first missing field is named.",
    ErrorBody,
    examples={
        "missing": ErrorBody(error="missing field `kind`"),
        "wrong type": ErrorBody(error="invalid request body"),
    },
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
UNAVAILABLE: Final = Answer(
    503,
    "The database cannot be used now; waiting may cure it.",
    ErrorBody,
    examples={
        "unavailable": ErrorBody(
            error="store unavailable: no connection: the database does not answer"
        )
    },
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
    return Answer(
        413, TOO_LARGE.description, ErrorBody, examples={"too large": ErrorBody(error=error)}
    )
