"""The command as a whole: its nouns, and how an error reaches the user."""

import sys
from typing import ClassVar, Final

import typer

from headgate.cli.exits import EXIT_FAILED, ApiError
from headgate.cli.lazy import Lazy
from headgate.model.errors import HeadgateError

NOUNS: Final = (
    "worker",
    "api",
    "dev",
    "demo",
    "local",
    "migrate",
    "archive",
    "indexes",
    "recount",
    "token",
    "context",
    "jobs",
    "queues",
    "workflows",
    "periodic",
    "rate-classes",
    "limits",
    "quarantine",
    "operations",
    "workers",
    "duties",
    "audit",
)


class Nouns(Lazy):
    """Imports a noun when it is asked for: all of them take four times as long as one."""

    modules: ClassVar = {noun: noun.replace("-", "_") for noun in NOUNS}


application = typer.Typer(
    name="headgate",
    cls=Nouns,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@application.callback()
def headgate() -> None:
    """A job queue on PostgreSQL."""


def main() -> None:
    """Run the command. What goes wrong is one line on stderr, and an exit code that says how."""
    try:
        application(prog_name="headgate")
    except HeadgateError as error:
        typer.echo(f"headgate: {error}", err=True)
        sys.exit(error.exit_code if isinstance(error, ApiError) else EXIT_FAILED)
