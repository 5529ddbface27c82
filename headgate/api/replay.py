"""Mutations that act once: the key's record, the change and the audit entry share a transaction."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from starlette.responses import Response

from headgate.api.auditing import audit_record
from headgate.api.errors import Refusal, response_for
from headgate.api.operations import REPLAYED
from headgate.api.requests import ApiRequest
from headgate.api.routing import raw_route_path
from headgate.model.envelope import Envelope
from headgate.model.errors import HeadgateError
from headgate.model.idempotency import MutationRequest, StoredAnswer, is_kept
from headgate.model.job import Enqueued
from headgate.store.database import Session
from headgate.store.store import Store

_OF_THE_MESSAGE: Final = frozenset({"content-length"})


async def answer_once(request: ApiRequest, handle: Callable[[], Awaitable[Response]]) -> Response:
    """The answer of `handle`, or the one that an earlier request with this key got.

    `handle` works on `request.store`, which is inside the transaction. What it refuses for good is
    kept and written down as well, without the change it may have begun; any other failure leaves
    nothing at all.
    """

    async def work(session: Session) -> StoredAnswer:
        request.store = request.api.store.within(session)
        try:
            response = await session.transact(lambda _: handle())
        except (Refusal, HeadgateError) as error:
            response = _refusal(error)
        await request.store.audit.append(audit_record(request, response.status_code))
        return _stored(response)

    try:
        answered = await request.api.store.idempotency.once(_mutation(request), work)
    finally:
        request.store = request.api.store
    return _response(answered.answer, replayed=answered.replayed)


async def enqueue_once(
    request: ApiRequest,
    jobs: Sequence[Envelope],
    *,
    answer: Callable[[list[Enqueued]], Response],
    refuse: Callable[[HeadgateError], Refusal | HeadgateError],
) -> Response:
    """Enqueues through the pipeline and keeps the answer with the jobs, in one transaction.

    The database is asked only at the end of the pipeline. `refuse` makes of an error what the
    caller is told. An earlier request with this key is answered again; the pipeline takes that for
    a success or, without a look at the kept answer, for no job at all.
    """
    final: list[Response] = []

    async def write(owned: list[Envelope]) -> list[Enqueued]:
        failure: HeadgateError | None = None
        enqueued: list[Enqueued] = []

        async def work(session: Session) -> StoredAnswer:
            nonlocal failure, enqueued
            failure = None
            inside: Store = request.api.store.within(session)
            try:
                enqueued = await session.transact(lambda _: inside.producer.enqueue(owned))
            except HeadgateError as error:
                failure = error
                return _stored(_refusal(refuse(error)))
            return _stored(answer(enqueued))

        answered = await request.api.store.idempotency.once(_mutation(request), work)
        final[:] = [_response(answered.answer, replayed=answered.replayed)]
        if failure is not None and not answered.replayed:
            raise failure
        return enqueued

    try:
        enqueued = await request.enqueue_by(write, jobs)
    except HeadgateError as error:
        if not final:
            raise refuse(error) from None
    else:
        # A middleware may have answered by itself.
        return final[0] if final else answer(enqueued)
    return final[0]


def _mutation(request: ApiRequest) -> MutationRequest:
    scope = request.scope
    return MutationRequest(
        identity=request.caller.subject,
        method=request.operation.method,
        route=request.operation.path,
        key=request.idempotency_key,
        content=(raw_route_path(scope), scope["query_string"], request.content),
    )


def _refusal(error: Refusal | HeadgateError) -> Response:
    """The answer to be kept; raises `error` when it may be another one the next time."""
    response = response_for(error)
    if not is_kept(response.status_code):
        raise error
    return response


def _stored(response: Response) -> StoredAnswer:
    headers: dict[str, Any] = {
        name: value for name, value in response.headers.items() if name not in _OF_THE_MESSAGE
    }
    return StoredAnswer(status=response.status_code, headers=headers, body=bytes(response.body))


def _response(stored: StoredAnswer, *, replayed: bool) -> Response:
    headers = {**stored.headers, REPLAYED: "true"} if replayed else stored.headers
    return Response(stored.body or None, stored.status, headers)
