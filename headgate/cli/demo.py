"""`headgate demo`: real jobs on an embedded PostgreSQL, from nothing."""

import asyncio
import logging
from pathlib import Path
from typing import Annotated

import typer

from headgate.api.server import listen, url_of
from headgate.local import LocalServer, reachable_directory
from headgate.local.demo.tour import tour

DATA_DIR = Path(".headgate/demo")


def demo(
    port: Annotated[
        int, typer.Option(help="Port of the API; 0 takes a free one.", min=0, max=65535)
    ] = 8080,
    once: Annotated[
        bool, typer.Option("--once", help="End after the last table instead of serving on.")
    ] = False,
) -> None:
    """Read Python's standard library with a thousand and more jobs, and show what is in it."""
    logging.basicConfig(level=logging.ERROR)
    server = LocalServer(reachable_directory(DATA_DIR))
    with listen("127.0.0.1", port) as listening, server.hold() as status:
        asyncio.run(tour(status.dsn, listening, url_of(listening), once=once))
