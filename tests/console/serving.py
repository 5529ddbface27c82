"""The API in this process, for the tests that need one of a kind of its own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.types import ASGIApp

from headgate.api.server import listen


@asynccontextmanager
async def served(app: ASGIApp) -> AsyncIterator[str]:
    """Where it is served, without a slash at the end."""
    with listen("127.0.0.1", 0) as listening:
        server = uvicorn.Server(
            uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
        )
        server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        task = asyncio.create_task(server.serve(sockets=[listening]))
        yield "http://{}:{}".format(*listening.getsockname()[:2])
        server.should_exit = True
        await task
