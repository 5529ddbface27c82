"""The command as a whole: its nouns, and how an error reaches the user."""

import sys

import typer

from headgate.cli import api, demo, dev, local, migrate, worker
from headgate.model.errors import HeadgateError

EXIT_FAILED = 1

application = typer.Typer(
    name="headgate",
    help="A job queue on PostgreSQL.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
application.command("api")(api.api)
application.command("worker")(worker.worker)
application.command("dev")(dev.dev)
application.command("demo")(demo.demo)
application.add_typer(local.application, name="local")
application.add_typer(migrate.application, name="migrate")


@application.callback()
def headgate() -> None:
    """A job queue on PostgreSQL."""


def main() -> None:
    """Run the command. What goes wrong is one line on stderr and exit code 1."""
    try:
        application()
    except HeadgateError as error:
        typer.echo(f"headgate: {error}", err=True)
        sys.exit(EXIT_FAILED)
