"""From errors to answers: one table, and no word of the driver ever leaves by it."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Self

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ExceptionHandler

from headgate.api.responses import json_response
from headgate.model.errors import (
    Backpressure,
    CircuitOpen,
    Conflict,
    DuplicateJob,
    EnqueueForbidden,
    FingerprintQuarantined,
    HeadgateError,
    IdConflict,
    InvalidRequest,
    MiddlewareError,
    NotFound,
    RequestInProgress,
    RequestKeyReused,
    SchemaIncompatible,
    SchemaMissing,
    StoreRefused,
    StoreUnavailable,
)

_log = logging.getLogger("headgate.api")


class ErrorBody(msgspec.Struct, kw_only=True):
    """What went wrong, as one line of text; of a batch of jobs also with which one."""

    error: str
    index: Annotated[
        int | msgspec.UnsetType, Meta(description="Its position in the batch, from 0.")
    ] = msgspec.UNSET


class DuplicateBody(ErrorBody, kw_only=True):
    existing_id: str
    replaced: bool


class QuarantinedBody(ErrorBody, kw_only=True):
    fingerprint: str


class BackpressureBody(ErrorBody, kw_only=True):
    queue: str
    limit: int
    current: int
    incoming: int


class ForbiddenBody(ErrorBody, kw_only=True):
    kind: str


class CircuitBody(ErrorBody, kw_only=True):
    retry_after_ms: int
    state: Annotated[str, Meta(extra_json_schema={"enum": ["closed", "open", "half_open"]})]


class InternalErrorBody(ErrorBody, kw_only=True):
    """`request_id` also stands in the log, beside what happened."""

    request_id: str


class Refusal(Exception):
    """A request that the control API itself turns down, before or instead of the store."""

    def __init__(
        self, status: int, message: str, *, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = ErrorBody(error=message)
        self.headers = headers

    @classmethod
    def of(cls, error: HeadgateError, *, index: int) -> Self:
        """The answer for an error of the model, about one job of a batch.

        Raises `error` itself when the caller must only learn that we failed.
        """
        answer = answer_for(error)
        if answer is None:
            raise error
        status, body = answer
        refusal = cls(status, body.error)
        refusal.body = msgspec.structs.replace(body, index=index)
        return refusal


def absent(message: str) -> Refusal:
    """A 404 in the words of one route."""
    return Refusal(404, message)


def _duplicate(error: DuplicateJob) -> ErrorBody:
    return DuplicateBody(
        error="duplicate unique key", existing_id=error.existing_id, replaced=error.replaced
    )


def _quarantined(error: FingerprintQuarantined) -> ErrorBody:
    return QuarantinedBody(error="fingerprint is quarantined", fingerprint=error.fingerprint)


def _backpressure(error: Backpressure) -> ErrorBody:
    return BackpressureBody(
        error="enqueue backpressure",
        queue=error.queue,
        limit=error.limit,
        current=error.current,
        incoming=error.incoming,
    )


def _forbidden(error: EnqueueForbidden) -> ErrorBody:
    return ForbiddenBody(error="enqueue forbidden", kind=error.kind)


def _circuit(error: CircuitOpen) -> ErrorBody:
    return CircuitBody(
        error="enqueue circuit open", retry_after_ms=error.retry_after_ms, state=error.state
    )


def _text(error: HeadgateError) -> ErrorBody:
    return ErrorBody(error=str(error))


def _invalid(error: InvalidRequest) -> ErrorBody:
    return ErrorBody(error=error.message)


def _unavailable(error: StoreUnavailable) -> ErrorBody:
    # The store's message quotes the driver: addresses, ports, users. Those are for the log.
    if isinstance(error, StoreRefused):
        reason = "access refused"
    elif error.message.startswith("no connection"):
        reason = "no connection: the database does not answer"
    else:
        reason = error.message
    return ErrorBody(error=f"store unavailable: {reason}")


def _schema(error: HeadgateError) -> ErrorBody:
    return ErrorBody(error=f"store unavailable: {error}")


_TABLE: Final[Mapping[type[HeadgateError], tuple[int, Callable[[Any], ErrorBody]]]] = {
    InvalidRequest: (400, _invalid),
    EnqueueForbidden: (403, _forbidden),
    NotFound: (404, _text),
    Conflict: (409, _text),
    DuplicateJob: (409, _duplicate),
    IdConflict: (409, _text),
    RequestInProgress: (409, _text),
    RequestKeyReused: (422, _text),
    FingerprintQuarantined: (423, _quarantined),
    Backpressure: (429, _backpressure),
    StoreUnavailable: (503, _unavailable),
    StoreRefused: (503, _unavailable),
    SchemaMissing: (503, _schema),
    SchemaIncompatible: (503, _schema),
    CircuitOpen: (503, _circuit),
    MiddlewareError: (500, _text),
}
"""Every error that a caller is told about. What is not here is a fault of ours: 500."""


def answer_for(error: HeadgateError) -> tuple[int, ErrorBody] | None:
    """Status and body for `error`, or None when the caller must only learn that we failed."""
    entry = _TABLE.get(type(error))
    return None if entry is None else (entry[0], entry[1](error))


class _OutageLog:
    """Says once in a while that the store is away, not once per request."""

    interval_s = 10.0

    def __init__(self) -> None:
        self._silent_until = 0.0

    def report(self, error: HeadgateError) -> None:
        now = time.monotonic()
        if now >= self._silent_until:
            self._silent_until = now + self.interval_s
            _log.warning("requests are answered 503: %s", error)


_outages: Final = _OutageLog()


def response_for(error: HeadgateError | Refusal) -> Response:
    """The answer to a request that ended in `error`; raises it when it is a fault of ours."""
    if isinstance(error, Refusal):
        return json_response(error.body, error.status, error.headers)
    answer = answer_for(error)
    if answer is None:
        raise error
    status, body = answer
    return json_response(body, status)


async def _answer_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HeadgateError | Refusal)
    if isinstance(error, StoreUnavailable | SchemaMissing | SchemaIncompatible):
        _outages.report(error)
    return response_for(error)


EXCEPTION_HANDLERS: Final[Mapping[Any, ExceptionHandler]] = {
    HeadgateError: _answer_error,
    Refusal: _answer_error,
}
"""For Starlette: what turns a raised error into its answer."""
