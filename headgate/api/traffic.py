"""What comes, what goes and what is lost, in all queues together."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta
from starlette.responses import Response

from headgate.api.operations import Answer, operation
from headgate.api.queues import HISTORY, SHORT_BUCKETS, HistoryQuery
from headgate.api.requests import ApiRequest
from headgate.api.responses import json_response
from headgate.api.wire import I64
from headgate.model.job import DeadLetters

_LOST: Final = DeadLetters(count=3, approximate=False)


class DeadLetterQuery(msgspec.Struct, kw_only=True, frozen=True):
    since_ms: Annotated[I64, Meta(description="From when on, in milliseconds since the epoch.")] = 0


@operation("GET", "/history", HISTORY, SHORT_BUCKETS)
async def read_history(request: ApiRequest, query: HistoryQuery) -> Response:
    """Count what arrived in all queues and what was completed, over time.

    Kept for 8 days by the minute; with very many queues an answer reaches less far back.
    """
    history = await request.store.queues.history(since_ms=query.since_ms, bucket_ms=query.bucket_ms)
    return json_response(history)


@operation(
    "GET",
    "/dead-letters",
    Answer(200, "How many there are.", DeadLetters, examples={"lost": _LOST}),
)
async def count_dead_letters(request: ApiRequest, query: DeadLetterQuery) -> Response:
    """Count the jobs that ended archived or undecodable from a time on.

    Counted up to 1,000; beyond, and where many are kept by a retention of their own, `approximate`
    says that there are more.
    """
    return json_response(await request.store.inspection.dead_letters(query.since_ms))
