"""Serving the control API from a process of its own."""

import asyncio
import importlib
import ipaddress
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final

import msgspec
import uvicorn

from headgate.api.application import create_app, end_streams
from headgate.api.config import ApiConfig
from headgate.api.operations import PREFIX
from headgate.duties.ledger import LedgerFolding
from headgate.duties.runner import DutyRunner
from headgate.model.errors import HeadgateError, StoreRefused, StoreUnavailable
from headgate.store.settings import StoreSettings
from headgate.store.store import Store

_log = logging.getLogger("headgate.api")

DRAIN_LIMIT_S: Final = 10
"""How long a request that is being served may take after the signal to stop."""

KEEP_ALIVE_S: Final = 75
"""How long an idle connection stays open. Longer than proxies and clients commonly keep theirs, or
a request would meet one that is just being closed."""


class CannotServe(HeadgateError):
    """The process cannot listen as it was told to; waiting does not cure that."""


def listen(host: str, port: int, *, guarded: bool = False) -> socket.socket:
    """A socket that listens on `host` and `port`; port 0 takes a free one.

    Where nobody is asked who they are, whoever reaches the port may do everything: so an address
    that others can reach must be `guarded`, by the access of the API or by something in front of
    it. Raises `CannotServe`.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError):
        raise CannotServe(f"cannot listen on {host}: no such address") from None
    if not guarded and not ipaddress.ip_address(address[0]).is_loopback:
        raise CannotServe(
            f"will not listen on {host or address[0]}, which others can reach, without"
            " authentication; use --tokens, or --allow-unauthenticated if something in front of it"
            " asks for it"
        )
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(2048)
    except OSError as error:
        listening.close()
        reason = error.strerror or "not allowed"
        raise CannotServe(f"cannot listen on {host}:{port}: {reason.lower()}") from None
    return listening


async def check_start(store: Store) -> None:
    """Raises `StoreRefused`, `SchemaMissing` or `SchemaIncompatible` when waiting would not help.

    A database that is away is no reason not to start.
    """
    try:
        await store.check_schema()
    except StoreRefused:
        raise
    except StoreUnavailable as error:
        _log.warning("%s; answering 503 until it is back", error)


async def serve(
    settings: StoreSettings,
    config: ApiConfig,
    listening: socket.socket,
    *,
    guarded: bool = False,
    announce: Callable[[str], None] = lambda line: None,
) -> None:
    """Serves until SIGINT or SIGTERM, then ends what it is answering and returns.

    Event streams end with the signal, a second signal does not wait for the rest. Meanwhile it
    takes part in folding the counts, so that they stay quick to read also without a worker; not in
    read-only mode, which writes nothing at all. What is neither `guarded` nor asks who is there
    answers to local names only. Raises what `check_start` raises.
    """
    if not guarded and not config.asks:
        config = msgspec.structs.replace(config, local_names_only=True)
    async with Store(settings) as store:
        await check_start(store)
        application = create_app(store, config)
        server = _Server(
            uvicorn.Config(
                application,
                access_log=False,
                http=_http_protocol(),
                log_config=None,
                log_level="warning",
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=DRAIN_LIMIT_S,
                timeout_keep_alive=KEEP_ALIVE_S,
                ws="none",
                lifespan="off",
            ),
            on_signal=lambda: end_streams(application),
        )
        async with _folding(store, enabled=not config.read_only):
            announce(serving(listening, config))
            await server.serve(sockets=[listening])


def serving(listening: socket.socket, config: ApiConfig) -> str:
    """The line that tells people where to look."""
    console = f" and the console at {url_of(listening, '/')}" if config.console else ""
    return f"serving {url_of(listening)}{console}"


def url_of(listening: socket.socket, path: str = PREFIX) -> str:
    """Where the API, or another `path`, is found on `listening`."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"


@asynccontextmanager
async def _folding(store: Store, *, enabled: bool) -> AsyncIterator[None]:
    """Folds the ledger in turns with the other processes of the installation."""
    if not enabled:
        yield
        return
    holder = f"api {socket.gethostname()} {os.getpid()}"
    running = asyncio.create_task(DutyRunner(store, [LedgerFolding()], holder).run())
    try:
        yield
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


def _http_protocol() -> Any:
    """The faster parser where it is installed; each has a bound for headers."""
    try:
        return importlib.import_module("headgate.api.protocol").BoundedProtocol
    except ModuleNotFoundError:
        return "h11"


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, *, on_signal: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_signal = on_signal

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # Uvicorn raises a signal again after its end, and nothing of ours would be closed then.
        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM)
        for number in signals:
            loop.add_signal_handler(number, self._end)
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)

    def _end(self) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True
        self._on_signal()
