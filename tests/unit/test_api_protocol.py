"""What a connection may send before it is a request, on real sockets."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import uvicorn
from starlette.responses import PlainTextResponse
from uvicorn.server import ServerState

from headgate.api import protocol
from headgate.api.protocol import MAX_HEAD_BYTES, BoundedProtocol

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
async def connection(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Connection]:
    monkeypatch.setattr(protocol, "HEAD_LIMIT_S", 0.2)
    config = uvicorn.Config(PlainTextResponse("fine"), log_config=None, timeout_keep_alive=60)
    config.load()
    server = await asyncio.get_running_loop().create_server(
        lambda: BoundedProtocol(config=config, server_state=ServerState(), app_state={}),
        "127.0.0.1",
        0,
    )
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    async with asyncio.timeout(10):
        yield reader, writer
    writer.close()
    server.close()


def head(size: int) -> bytes:
    """A request whose line and headers have this size together."""
    return b"GET / HTTP/1.1\r\nhost: x\r\nfill: " + b"y" * (size - 10) + b"\r\n\r\n"


async def answer_of(reader: asyncio.StreamReader) -> bytes:
    found = await reader.readuntil(b"\r\n\r\n")
    if b"content-length: 4" in found:
        await reader.readexactly(4)
    return found.split(b"\r\n")[0]


async def test_heads_up_to_the_bound_are_requests_one_after_the_other(
    connection: Connection,
) -> None:
    reader, writer = connection
    for size in (20, MAX_HEAD_BYTES, 30):
        writer.write(head(size))
        assert await answer_of(reader) == b"HTTP/1.1 200 OK"


async def test_a_head_beyond_is_refused_and_the_connection_closed(connection: Connection) -> None:
    reader, writer = connection
    writer.write(head(MAX_HEAD_BYTES + 1))
    assert await answer_of(reader) == b"HTTP/1.1 400 Bad Request"
    await reader.read()
    assert reader.at_eof()


@pytest.mark.parametrize("beginning", [b"", b"GET / HTTP/1.1\r\nhost: x\r\n"])
async def test_a_head_that_does_not_come_is_not_waited_for(
    connection: Connection, beginning: bytes
) -> None:
    reader, writer = connection
    writer.write(beginning)
    assert await reader.read() == b""


async def test_the_next_head_of_a_connection_has_its_time_too(connection: Connection) -> None:
    reader, writer = connection
    writer.write(head(20))
    assert await answer_of(reader) == b"HTTP/1.1 200 OK"
    await asyncio.sleep(0.3)
    # Between two requests it may be silent for as long as connections are kept.
    writer.write(head(20))
    assert await answer_of(reader) == b"HTTP/1.1 200 OK"
    writer.write(b"GET / HT")
    assert await reader.read() == b""
