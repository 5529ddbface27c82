"""Bounds on what a connection may send before it is anybody's request."""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES: Final = 65_536
"""How large the request line and the headers may be together."""

HEAD_LIMIT_S: Final = 30
"""How long a client may take for them."""


class BoundedProtocol(HttpToolsProtocol):
    """Uvicorn's protocol on httptools, which by itself would gather headers without end.

    A head that is too large is answered 400, and a connection whose head does not come is closed.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head_bytes = 0
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        super().connection_made(transport)
        self._begin_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes = 0
        self._begin_waiting()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._count(len(name) + len(value))

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        super().on_headers_complete()

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > MAX_HEAD_BYTES:
            # The parser turns it into its own error, and that is answered.
            raise ValueError("the head of the request is too large")

    def _begin_waiting(self) -> None:
        self._stop_waiting()
        self._patience = self.loop.call_later(HEAD_LIMIT_S, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
