"""`headgate local`: an embedded PostgreSQL for development.

The DSN goes to stdout and everything else to stderr, so that a shell can take it up:
`export HEADGATE_DATABASE_URL=$(headgate local start)`.
"""

from pathlib import Path
from typing import Annotated

import typer

from headgate.local import ROOT_HOME, LocalServer, ServerStatus, reachable_directory

EXIT_STOPPED = 3
DEFAULT_DATA_DIR = Path(".headgate/postgres")
DEV_DATA_DIR = Path(".headgate/dev")

DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        help=f"Where the server keeps its data. By default {DEFAULT_DATA_DIR}, or below"
        f" {ROOT_HOME} when the server of root could not enter that.",
        show_default=False,
        readable=False,  # what is wrong with it, the server says more exactly
    ),
]

application = typer.Typer(
    help="An embedded PostgreSQL for development.", no_args_is_help=True, rich_markup_mode=None
)


@application.command()
def start(data_dir: DataDir = None) -> None:
    """Start the server, or find it running; it stays until it is stopped."""
    server = _server(data_dir)
    _show(server, server.start())


@application.command()
def stop(data_dir: DataDir = None) -> None:
    """Stop the server. What it holds is kept."""
    server = _server(data_dir)
    stopped = server.stop()
    typer.echo(f"{'stopped' if stopped else 'not running'}: {server.directory.root}", err=True)


@application.command()
def status(data_dir: DataDir = None) -> None:
    """Print the DSN of the running server; exit with 3 when it is stopped.

    Without --data-dir it is the one that `start`, or else `headgate dev`, runs for this directory.
    """
    servers = [_server(data_dir)]
    if data_dir is None:
        servers.append(LocalServer(reachable_directory(DEV_DATA_DIR)))
    for server in servers:
        if found := server.status():
            return _show(server, found)
    typer.echo(f"not running: {servers[0].directory.root}", err=True)
    raise typer.Exit(EXIT_STOPPED)


def _server(data_dir: Path | None) -> LocalServer:
    return LocalServer(data_dir or reachable_directory(DEFAULT_DATA_DIR))


def _show(server: LocalServer, found: ServerStatus) -> None:
    where = server.directory.root
    typer.echo(f"PostgreSQL {found.version} (pid {found.pid}) in {where}", err=True)
    typer.echo(found.dsn)
