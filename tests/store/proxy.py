"""Networks between the store and its server: one that can fall silent, and a transaction pooler."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from sqlalchemy import make_url

_READY: Final = b"Z"
_IDLE: Final = b"I"
_TERMINATE: Final = b"X"
_AUTHENTICATION: Final = b"R"
_WELCOME: Final = (0).to_bytes(4, "big")
_LAST_PROOF: Final = (12).to_bytes(4, "big")
_TLS_REQUEST: Final = (80_877_103).to_bytes(4, "big")
_CANCELLATION: Final = (80_877_102).to_bytes(4, "big")

# What ends the answer to a message; the others are answered together with a later one. A flush
# comes behind the description of a statement.
_ANSWERED_BY: Final = {
    b"Q": frozenset({b"Z"}),
    b"S": frozenset({b"Z"}),
    b"H": frozenset({b"T", b"n", b"E"}),
}

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def target_of(dsn: str) -> tuple[str, int]:
    url = make_url(dsn)
    return url.host or "127.0.0.1", url.port or 5432


def through(dsn: str, port: int) -> str:
    """The DSN by way of a proxy."""
    url = make_url(dsn).set(host="127.0.0.1", port=port)
    return url.render_as_string(hide_password=False)


class Wire:
    """Forwards bytes until it is cut: then it keeps the connections open and says nothing."""

    def __init__(self, dsn: str) -> None:
        self._target = target_of(dsn)
        self.alive = asyncio.Event()
        self.alive.set()
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        there, back = await asyncio.open_connection(*self._target)
        await asyncio.gather(self._copy(reader, back), self._copy(there, writer))

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while chunk := await source.read(65_536):
                await self.alive.wait()
                sink.write(chunk)
                await sink.drain()
        sink.close()


class Pooler:
    """Gives a client a session of the server for each transaction, and another one each time.

    What is left behind in a session (a setting, a prepared statement, a LISTEN) meets somebody else
    next, as behind any transaction pooler.
    """

    def __init__(self, dsn: str, *, sessions: int = 3) -> None:
        self._target = target_of(dsn)
        self._size = sessions
        self._free: asyncio.Queue[Streams] = asyncio.Queue()
        self._opened = 0
        self._greeting: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.transactions = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await self._serve(reader, writer)
        writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        startup = await _read_untyped(reader)
        if startup[4:8] == _TLS_REQUEST:
            writer.write(b"N")
            startup = await _read_untyped(reader)
        if startup[4:8] == _CANCELLATION:
            return
        await self._greet(startup, reader, writer)
        while True:
            message = await _read_message(reader)
            if message[:1] == _TERMINATE:
                return
            session = await self._free.get()
            self.transactions += 1
            await self._transaction(session, message, reader, writer)
            self._free.put_nowait(session)

    async def _greet(
        self, startup: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """The first clients log in at the server and leave their sessions here; the later ones are
        told what those were.
        """
        if self._opened == self._size:
            writer.write(await self._greeting)
            return
        self._opened += 1
        server, to_server = await asyncio.open_connection(*self._target)
        to_server.write(startup)
        greeting = b""
        while greeting[-6:-5] != _READY:
            message = await _read_message(server)
            writer.write(message)
            if message[:1] != _AUTHENTICATION:
                greeting += message
            elif message[5:9] == _WELCOME:
                greeting = message
            elif message[5:9] != _LAST_PROOF:
                to_server.write(await _read_message(reader))
        if not self._greeting.done():
            self._greeting.set_result(greeting)
        self._free.put_nowait((server, to_server))

    async def _transaction(
        self,
        session: Streams,
        message: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Passes messages on until the session is idle again."""
        server, to_server = session
        while True:
            to_server.write(message)
            ends = _ANSWERED_BY.get(message[:1])
            if ends is not None:
                answer = b""
                while answer[:1] not in ends:
                    answer = await _read_message(server)
                    writer.write(answer)
                if answer[:1] + answer[-1:] == _READY + _IDLE:
                    return
            message = await _read_message(reader)


async def _read_untyped(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(4)
    return head + await reader.readexactly(int.from_bytes(head, "big") - 4)


async def _read_message(reader: asyncio.StreamReader) -> bytes:
    kind = await reader.readexactly(1)
    return kind + await _read_untyped(reader)


@asynccontextmanager
async def listening(service: Wire | Pooler) -> AsyncIterator[int]:
    """The port on which the service listens."""
    server = await asyncio.start_server(service.serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
