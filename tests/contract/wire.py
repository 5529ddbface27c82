"""A wire between a client and PostgreSQL that a test can cut and mend."""

import asyncio
from contextlib import suppress
from typing import Final

from sqlalchemy import make_url


class Wire:
    """Forwards a port of its own to the server of `dsn`; not connected until it is mended."""

    def __init__(self, dsn: str) -> None:
        url = make_url(dsn)
        self._host: Final = url.host
        self._port: Final = url.port
        self._url: Final = url
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._own_port = 0

    async def open(self) -> None:
        """Takes a port, and leaves it closed."""
        await self.mend()
        await self.cut()

    @property
    def dsn(self) -> str:
        url = self._url.set(host="127.0.0.1", port=self._own_port)
        return url.render_as_string(hide_password=False)

    async def mend(self) -> None:
        self._server = await asyncio.start_server(self._forward, "127.0.0.1", self._own_port)
        self._own_port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """Closes the port, and everything that runs over it."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for writer in self._writers:
            writer.transport.abort()
        for task in tuple(self._tasks):
            await task

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(self._host, self._port)
        for one, other in ((reader, back), (there, writer)):
            self._writers.add(other)
            task = asyncio.create_task(self._copy(one, other))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        self._writers.discard(writer)
        writer.close()
