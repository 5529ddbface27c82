"""A network between workers and their server that misbehaves on demand."""

import asyncio
import random
from contextlib import suppress

from tests.store.proxy import Wire, target_of


class Network(Wire):
    """Forwards to a server that may move; falls silent, becomes slow, or cuts what is open."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        self._slow_seconds = 0.0
        self._open: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            await super().serve(reader, writer)
        except OSError:
            # The server is away: so is this connection.
            pass
        finally:
            self._open.discard(writer)
            writer.close()

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await source.read(65_536):
                await self.alive.wait()
                if self._slow_seconds:
                    await asyncio.sleep(self._slow_seconds * random.random())
                sink.write(chunk)
                await sink.drain()
        sink.close()

    def move(self, dsn: str) -> None:
        """The server is elsewhere from now on."""
        self._target = target_of(dsn)

    def cut(self) -> None:
        """Ends every connection without a word of farewell."""
        for writer in self._open:
            writer.transport.abort()

    async def be_silent(self, seconds: float) -> None:
        """Keeps connections open and passes nothing on, for a while."""
        self.alive.clear()
        await asyncio.sleep(seconds)
        self.alive.set()

    async def be_slow(self, seconds: float) -> None:
        """Every message takes up to a tenth of a second, for a while."""
        self._slow_seconds = 0.1
        await asyncio.sleep(seconds)
        self._slow_seconds = 0.0
