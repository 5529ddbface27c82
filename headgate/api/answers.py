"""What every operation of a kind may answer, stated once for the OpenAPI document."""

from collections.abc import Iterable
from typing import Any, Final

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
    name="BadRequest",
)
READ_ONLY: Final = Answer(
    403,
    "This instance serves reads only.",
    ErrorBody,
    examples={"read-only": ErrorBody(error="read-only mode")},
    name="ReadOnly",
)
OTHER_METHOD: Final = Answer(
    405,
    "For any other method on this path; `allow` names those it has. No body.",
    headers={"allow": "The methods of the path, between commas."},
    name="OtherMethod",
)
TOO_LARGE: Final = Answer(413, "The body is too large.", ErrorBody, name="TooLarge")
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
    500, "A fault of Headgate; the log tells more.", InternalErrorBody, name="InternalError"
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
    READ_ONLY,
    OTHER_METHOD,
    TOO_LARGE,
    MEDIA_TYPE,
    WRONG_SHAPE,
    INTERNAL_ERROR,
    UNAVAILABLE,
)


def shared_answers(operation: Operation) -> Iterable[Answer]:
    """The answers that follow from what kind of operation it is."""
    if operation.mutates or operation.path_parameters or operation.query_type:
        yield BAD_REQUEST
    if operation.mutates:
        yield READ_ONLY
    yield OTHER_METHOD
    if operation.body_type is not None:
        yield TOO_LARGE
        yield MEDIA_TYPE
        yield WRONG_SHAPE
    if operation.uses_store:
        yield UNAVAILABLE
    yield INTERNAL_ERROR
