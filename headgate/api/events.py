"""Events as they happen: which queues got work, for consoles and dashboards."""

import asyncio
from contextlib import suppress
from typing import Final

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headgate.api.broadcast import Broadcaster, Follower
from headgate.api.operations import Answer, operation, refused
from headgate.api.requests import ApiRequest
from headgate.api.wire import encode

_STALLED_S: Final = 30
"""A client that takes nothing for so long is gone."""


class QueueActivity(msgspec.Struct, frozen=True):
    """Queues that got work, sorted; an empty list means that any queue may have."""

    queues: list[str]


class EventStream(Response):
    """An answer without an end: a frame for what happened, a comment when nothing does."""

    media_type = "text/event-stream"

    def __init__(self, broadcaster: Broadcaster, heartbeat_ms: int) -> None:
        super().__init__(None, headers={"cache-control": "no-cache", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._broadcaster = broadcaster
        self._heartbeat_ms = heartbeat_ms

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises `Refusal` 503 before anything is sent when too many streams are open."""
        with self._broadcaster.follow() as follower:
            # What happens after the first byte of the answer is not missed.
            await self._broadcaster.ready()
            sending = asyncio.create_task(self._send(follower, send))
            leaving = asyncio.create_task(_until_gone(receive))
            try:
                await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (sending, leaving):
                    task.cancel()
                await asyncio.gather(sending, leaving, return_exceptions=True)

    async def _send(self, follower: Follower, send: Send) -> None:
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        with suppress(EOFError, TimeoutError, OSError):
            while True:
                queues = await follower.next(self._heartbeat_ms)
                async with asyncio.timeout(_STALLED_S):
                    await send(_body(_frame(queues), more=True))
        with suppress(OSError):
            await send(_body(b"", more=False))


def _frame(queues: list[str] | None) -> bytes:
    if queues is None:
        return b": hb\n\n"
    return b"event: queue_activity\ndata: " + encode(QueueActivity(queues)) + b"\n\n"


def _body(content: bytes, *, more: bool) -> dict[str, object]:
    return {"type": "http.response.body", "body": content, "more_body": more}


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


@operation(
    "GET",
    "/events",
    Answer(
        200,
        "A stream of server-sent events. Each `queue_activity` carries a QueueActivity as `data`;"
        " a comment keeps the connection alive. It has no end.",
        str,
        media_type=EventStream.media_type,
        examples={"activity": 'event: queue_activity\ndata: {"queues":["mail"]}\n\n'},
    ),
    refused(503, "Too many streams are open.", "too many event streams"),
    uses_store=False,
)
async def follow_events(request: ApiRequest) -> Response:
    """Follow which queues get work.

    What happens within 200 ms comes together. Only enqueues and what becomes due are told; a missed
    event costs nothing but time, so ask again now and then. Where workers are not woken either (see
    `notifying` of the metadata), only comments come.
    """
    return EventStream(request.api.broadcaster, request.config.event_heartbeat_ms)
