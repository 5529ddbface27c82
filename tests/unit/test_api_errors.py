"""Which error becomes which answer, and that no fault of ours says more than it must."""

import inspect
import logging

import pytest
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headgate.api import errors
from headgate.api.boundary import Boundary
from headgate.api.wire import encode
from headgate.model import errors as model_errors
from headgate.model.errors import (
    BackendError,
    Backpressure,
    CircuitOpen,
    Conflict,
    DuplicateJob,
    EnqueueForbidden,
    FingerprintQuarantined,
    HeadgateError,
    IdConflict,
    InvalidRequest,
    LeaseRejected,
    MiddlewareError,
    NotFound,
    RequestInProgress,
    RequestKeyReused,
    SchemaIncompatible,
    SchemaMissing,
    StoreError,
    StoreRefused,
    StoreUnavailable,
)

ANSWERS: list[tuple[HeadgateError, int, str]] = [
    (InvalidRequest("kind is bad"), 400, '{"error":"kind is bad"}'),
    (EnqueueForbidden("t.k"), 403, '{"error":"enqueue forbidden","kind":"t.k"}'),
    (NotFound("job x"), 404, '{"error":"not found: job x"}'),
    (
        DuplicateJob("x", replaced=True),
        409,
        '{"error":"duplicate unique key","existing_id":"x","replaced":true}',
    ),
    (Conflict("queue q has one"), 409, '{"error":"queue q has one"}'),
    (IdConflict("x"), 409, '{"error":"id conflict: job x"}'),
    (
        FingerprintQuarantined("ab"),
        423,
        '{"error":"fingerprint is quarantined","fingerprint":"ab"}',
    ),
    (
        Backpressure("q", limit=1, current=2, incoming=3),
        429,
        '{"current":2,"error":"enqueue backpressure","incoming":3,"limit":1,"queue":"q"}',
    ),
    (
        StoreUnavailable("no connection: Connect call failed ('10.0.0.7', 5432)"),
        503,
        '{"error":"store unavailable: no connection: the database does not answer"}',
    ),
    (
        StoreUnavailable("statement timed out"),
        503,
        '{"error":"store unavailable: statement timed out"}',
    ),
    (
        StoreRefused('access refused: password authentication failed for user "root"'),
        503,
        '{"error":"store unavailable: access refused"}',
    ),
    (RequestInProgress(), 409, '{"error":"a request with this idempotency key is in progress"}'),
    (
        RequestKeyReused(),
        422,
        '{"error":"idempotency key was used with a different request"}',
    ),
    (MiddlewareError("not today"), 500, '{"error":"not today"}'),
    (SchemaMissing("no tables"), 503, '{"error":"store unavailable: no tables"}'),
    (SchemaIncompatible("too new"), 503, '{"error":"store unavailable: too new"}'),
    (
        CircuitOpen("half_open", retry_after_ms=7),
        503,
        '{"error":"enqueue circuit open","retry_after_ms":7,"state":"half_open"}',
    ),
]


@pytest.mark.parametrize(
    ("error", "status", "body"), ANSWERS, ids=lambda value: type(value).__name__
)
def test_an_error_has_its_answer(error: HeadgateError, status: int, body: str) -> None:
    answer = errors.answer_for(error)
    assert answer is not None
    assert (answer[0], encode(answer[1]).decode()) == (status, body)


def test_every_error_of_the_model_is_answered_or_is_a_fault_on_purpose() -> None:
    answered = {type(error) for error, _, _ in ANSWERS}
    faults = {HeadgateError, StoreError, BackendError, LeaseRejected}
    kinds = {
        kind
        for _, kind in inspect.getmembers(model_errors, inspect.isclass)
        if issubclass(kind, HeadgateError)
    }
    assert kinds == answered | faults
    assert errors.answer_for(BackendError("value out of range")) is None


@pytest.fixture(autouse=True)
def outage_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "_outages", errors._OutageLog())


class Raising:
    """An application in the place of the router."""

    def __init__(self, error: Exception, *, after_start: bool = False) -> None:
        self.error = error
        self.after_start = after_start

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.after_start:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        raise self.error


async def ask(app: ASGIApp) -> list[Message]:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        sent.append(message)

    await app({"type": "http", "method": "GET", "path": "/x\ny", "headers": []}, receive, send)
    return sent


def application(app: ASGIApp) -> Starlette:
    built = Starlette(exception_handlers=errors.EXCEPTION_HANDLERS)
    built.add_middleware(Boundary)
    built.router.default = app
    built.router.redirect_slashes = False
    return built


@pytest.mark.parametrize(
    "error", [ValueError("secret"), BackendError("secret"), LeaseRejected("secret")]
)
async def test_a_fault_says_nothing_but_where_to_look(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    start, body = await ask(application(Raising(error)))
    headers = dict(start["headers"])
    request_id = headers[b"x-request-id"].decode()
    assert start["status"] == 500
    assert body["body"] == (
        b'{"error":"internal error","request_id":"' + request_id.encode() + b'"}'
    )
    (record,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert record.exc_info
    assert request_id in record.getMessage()
    # What the client wrote must not be able to forge a line of the log.
    assert "\n" not in record.getMessage()


async def test_a_fault_after_the_start_breaks_off_the_answer() -> None:
    with pytest.raises(ValueError, match="late"):
        await ask(Boundary(Raising(ValueError("late"), after_start=True)))


async def test_a_client_that_went_away_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    assert await ask(application(Raising(ClientDisconnect()))) == []
    assert not caplog.records


async def test_an_outage_is_said_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    app = application(Raising(StoreUnavailable("no connection: refused")))
    for _ in range(50):
        start, _ = await ask(app)
        assert start["status"] == 503
    assert len(caplog.records) == 1


async def test_every_answer_carries_the_headers() -> None:
    start, _ = await ask(application(Raising(InvalidRequest("no"))))
    headers = dict(start["headers"])
    assert headers[b"content-type"] == b"application/json"
    assert headers[b"x-content-type-options"] == b"nosniff"
    assert headers[b"cache-control"] == b"no-store"
    assert len(headers) == len(start["headers"])
    again, _ = await ask(application(Raising(InvalidRequest("no"))))
    assert dict(again["headers"])[b"x-request-id"] != headers[b"x-request-id"]
