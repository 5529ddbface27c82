"""The way from code that blocks to an event loop, for producers that have none."""

import asyncio
import atexit
import os
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

from headgate.model.errors import InvalidRequest
from headgate.store.settings import StoreSettings
from headgate.store.store import Store

Answer = TypeVar("Answer")


class Portal:
    """A thread with an event loop and a store of its own, from the first use to the end of the
    process. A process that was forked begins with a new one.
    """

    def __init__(self, settings: Callable[[], StoreSettings]) -> None:
        self._settings = settings
        self._starting = threading.Lock()
        self._process = 0
        self._loop: asyncio.AbstractEventLoop
        self._store: Store

    def run(self, work: Callable[[Store], Awaitable[Answer]]) -> Answer:
        """Runs `work` on the portal's loop and waits for it. From any thread without a loop.

        Raises what it raises, and `InvalidRequest` on an event loop, which must not be blocked.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise InvalidRequest(
                "this blocks: on an event loop, await the method without _blocking"
            )
        with self._starting:
            if self._process != os.getpid():
                self._start()

        async def call() -> Answer:
            return await work(self._store)

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result()

    def close(self) -> None:
        """Sends the last wake-ups and ends the thread. May be repeated; a later use begins anew."""
        with self._starting:
            if self._process != os.getpid():
                return
            self._process = 0
            asyncio.run_coroutine_threadsafe(self._store.close(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _start(self) -> None:
        store = Store(self._settings())
        loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=loop.run_forever, name="headgate portal", daemon=True
        )
        self._thread.start()
        self._store, self._loop = store, loop
        self._process = os.getpid()
        atexit.register(self.close)
