"""Serving the control API from a process of its own."""

import asyncio
import ipaddress
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn

from headgate.api.application import create_app
from headgate.api.config import ApiConfig
from headgate.api.operations import PREFIX
from headgate.model.errors import HeadgateError, StoreRefused, StoreUnavailable
from headgate.store.settings import StoreSettings
from headgate.store.store import Store

_log = logging.getLogger("headgate.api")

DRAIN_LIMIT_S: Final = 10
"""How long a request that is being served may take after the signal to stop."""


class CannotServe(HeadgateError):
    """The process cannot listen as it was told to; waiting does not cure that."""


def listen(host: str, port: int, *, allow_unauthenticated: bool = False) -> socket.socket:
    """A socket that listens on `host` and `port`; port 0 takes a free one.

    Whoever reaches the port may do everything, so an address that others can reach needs
    `allow_unauthenticated`. Raises `CannotServe`.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError):
        raise CannotServe(f"cannot listen on {host}: no such address") from None
    if not allow_unauthenticated and not ipaddress.ip_address(address[0]).is_loopback:
        raise CannotServe(
            f"will not listen on {host or address[0]}, which others can reach, without"
            " authentication; --allow-unauthenticated if something in front of it asks for it"
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


async def serve(
    settings: StoreSettings,
    config: ApiConfig,
    listening: socket.socket,
    *,
    announce: Callable[[str], None] = lambda line: None,
) -> None:
    """Serves until SIGINT or SIGTERM, then ends what it is answering and returns.

    A database that is away is no reason not to start. Raises `StoreRefused`, `SchemaMissing` or
    `SchemaIncompatible` when waiting would not help.
    """
    async with Store(settings) as store:
        try:
            await store.check_schema()
        except StoreRefused:
            raise
        except StoreUnavailable as error:
            _log.warning("%s; answering 503 until it is back", error)
        server = _Server(
            uvicorn.Config(
                create_app(store, config),
                access_log=False,
                log_config=None,
                log_level="warning",
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=DRAIN_LIMIT_S,
                ws="none",
                lifespan="off",
            )
        )
        announce(f"serving {url_of(listening)}")
        await server.serve(sockets=[listening])


def url_of(listening: socket.socket) -> str:
    """Where the API is found on `listening`."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{PREFIX}"


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # Uvicorn raises a signal again after its end, and nothing of ours would be closed then.
        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM)
        for number in signals:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)
