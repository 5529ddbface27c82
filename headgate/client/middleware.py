"""Middleware around an enqueue: it may change the jobs, turn them down, or try again."""

from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Protocol, TypeAlias

import msgspec

from headgate.client.authorizer import EnqueueContext
from headgate.model.envelope import Envelope
from headgate.model.job import Enqueued


class EnqueueMode(StrEnum):
    """In a transaction of its own, or in one that belongs to the caller."""

    DIRECT = "direct"
    TRANSACTIONAL = "transactional"


class EnqueueRequest(msgspec.Struct):
    """An enqueue on its way to the store. The jobs are copies: a middleware may change them."""

    context: EnqueueContext
    mode: EnqueueMode
    jobs: list[Envelope]


Next: TypeAlias = Callable[[EnqueueRequest], Awaitable[list[Enqueued]]]
"""Goes on with a request. May be awaited several times; each reaches the store anew."""


class EnqueueMiddleware(Protocol):
    """Stands around everything that comes after it; the first one registered is the outermost.

    It goes on with `await call_next(request)` and answers for each job, in order. To turn a request
    down it raises, `MiddlewareError` for a text that the caller shall see.
    """

    async def __call__(self, request: EnqueueRequest, call_next: Next, /) -> list[Enqueued]: ...


class TraceContextMiddleware:
    """Gives each job the trace that it is enqueued in, in its headers, unless it has one.

    `current` answers with the W3C headers of this moment, `traceparent` and maybe `tracestate`, or
    with nothing outside a trace; with OpenTelemetry it injects into an empty mapping.
    """

    def __init__(self, current: Callable[[], Mapping[str, str]]) -> None:
        self._current = current

    async def __call__(self, request: EnqueueRequest, call_next: Next, /) -> list[Enqueued]:
        trace = self._current()
        if trace:
            for job in request.jobs:
                if "traceparent" not in job.headers:
                    job.headers.update(trace)
        return await call_next(request)
