"""A client that calls an ASGI application directly, byte by byte as a server would."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import unquote
from uuid import uuid4

from starlette.types import ASGIApp, Message, Scope

from headgate.api.operations import MUTATING

Header = tuple[str, str]


class Answer:
    """What came back."""

    def __init__(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
        self.status: Final = status
        self.headers: Final = {name.decode(): value.decode() for name, value in headers}
        self.body: Final = body

    def json(self) -> Any:
        return json.loads(self.body)

    def __repr__(self) -> str:
        return f"{self.status} {self.body[:300]!r}"


class Exchange:
    """One request and what has come back so far."""

    def __init__(self, scope: Scope, body: bytes = b"", *, brief: bool = False) -> None:
        """`brief` goes away as soon as the answer turns out to have no end."""
        self.scope: Final = scope
        self.brief: Final = brief
        self.gone: Final = asyncio.Event()
        self._news = asyncio.Event()
        self._messages: list[Message] = [{"type": "http.request", "body": body}]
        self._sent: list[Message] = []
        self._taking = asyncio.Event()
        self._taking.set()

    @property
    def complete(self) -> bool:
        """Whether the answer has come to its end."""
        return bool(self._sent) and not self._sent[-1].get("more_body", True)

    def stall(self) -> None:
        """Takes nothing more, as a client whose buffers are full."""
        self._taking.clear()

    def resume(self) -> None:
        """Takes again what is sent."""
        self._taking.set()

    async def receive(self) -> Message:
        if self._messages:
            return self._messages.pop(0)
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        await self._taking.wait()
        self._sent.append(message)
        self._news.set()
        if self.brief and b"text/event-stream" in dict(message.get("headers", ())).get(
            b"content-type", b""
        ):
            self.gone.set()

    async def until(self, arrived: Callable[[str], bool]) -> None:
        """Waits until the body so far is as wanted; at first for the start of the answer."""
        while not self._sent or not arrived(self.answer().body.decode()):
            self._news.clear()
            await self._news.wait()

    def answer(self) -> Answer:
        start, *rest = self._sent
        body = b"".join(message.get("body", b"") for message in rest)
        return Answer(start["status"], start["headers"], body)


class Client:
    """Sends one request after the other; `target` is path and query as they go over the wire."""

    def __init__(self, app: ASGIApp, *, prefix: str = "/api/v1", root_path: str = "") -> None:
        self.app: Final = app
        self._prefix = prefix
        self._root_path = root_path

    async def request(
        self,
        method: str,
        target: str,
        *,
        headers: Iterable[Header] = (),
        body: bytes = b"",
        json: Any = None,
        key: str | None = "",
    ) -> Answer:
        """`key` "" sends a fresh Idempotency-Key where one is needed, None sends none."""
        all_headers = [("host", "test"), *headers]
        if json is not None:
            body = encode(json)
            all_headers.append(("content-type", "application/json"))
        if key == "" and method in MUTATING:
            key = uuid4().hex
        if key:
            all_headers.append(("idempotency-key", key))
        exchange = Exchange(self._scope(method, target, all_headers), body, brief=True)
        await self.app(exchange.scope, exchange.receive, exchange.send)
        return exchange.answer()

    @asynccontextmanager
    async def stream(
        self, target: str, *, headers: Iterable[Header] = ()
    ) -> AsyncIterator["Exchange"]:
        """A GET whose answer has no end; the client goes away when the block is left."""
        exchange = Exchange(self._scope("GET", target, [("host", "test"), *headers]))
        task = asyncio.create_task(self._run(exchange))
        try:
            await exchange.until(lambda text: True)
            yield exchange
        finally:
            exchange.gone.set()
            async with asyncio.timeout(5):
                await task

    async def _run(self, exchange: "Exchange") -> None:
        await self.app(exchange.scope, exchange.receive, exchange.send)

    def _scope(self, method: str, target: str, headers: Iterable[Header]) -> Scope:
        path, _, query = (self._prefix + target).partition("?")
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode("latin-1"),
            "query_string": query.encode("latin-1"),
            "root_path": self._root_path,
            "headers": [(n.lower().encode(), v.encode("latin-1")) for n, v in headers],
            "client": ("127.0.0.1", 1),
            "server": ("test", 80),
        }

    async def get(self, target: str, *, headers: Iterable[Header] = ()) -> Answer:
        return await self.request("GET", target, headers=headers)


def encode(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
