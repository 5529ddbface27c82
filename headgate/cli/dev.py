"""`headgate dev`: an application with everything it needs, in one process."""

import asyncio
import logging
import socket
from pathlib import Path
from typing import Annotated

import typer

from headgate.api.server import listen
from headgate.cli.local import DEV_DATA_DIR
from headgate.cli.worker import load_application
from headgate.client.application import Headgate
from headgate.local import LocalServer, reachable_directory
from headgate.local.development import development


def dev(
    application: Annotated[
        str,
        typer.Argument(metavar="MODULE:APP", help="The application, such as `shop.jobs:app`."),
    ],
    port: Annotated[
        int, typer.Option(help="Port of the API; 0 takes a free one.", min=0, max=65535)
    ] = 8080,
    concurrency: Annotated[int, typer.Option(help="Handlers that run at a time.", min=1)] = 16,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            "--data-dir",
            help=f"Where the database is kept. By default {DEV_DATA_DIR}.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Run an application with a database, the API and a worker, all in this process.

    Ctrl-C ends it; what was enqueued is there the next time.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    app = load_application(application)
    server = LocalServer(data_dir or reachable_directory(DEV_DATA_DIR))
    with listen("127.0.0.1", port) as listening, server.hold() as status:
        typer.echo(f"database {status.dsn}", err=True)
        asyncio.run(_develop(app, status.dsn, listening, concurrency))


async def _develop(app: Headgate, dsn: str, listening: socket.socket, concurrency: int) -> None:
    async with development(
        app,
        dsn,
        listening,
        concurrency=concurrency,
        announce=lambda line: typer.echo(line, err=True),
    ) as running:
        await running.ended()
