"""The command as a whole: its nouns, and how an error reaches the user."""

import importlib
import sys
from typing import Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_group

from headgate.cli.exits import EXIT_FAILED, ApiError
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
"""Each is a module here that has either a Typer `application` or a function of its own name."""


# Typer has types of its own for contexts and commands, and does not export them: hence Any.
class Nouns(TyperGroup):
    """Imports a noun when it is asked for: all of them take four times as long as one."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(NOUNS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in NOUNS:
            return None
        module = importlib.import_module(f"headgate.cli.{cmd_name.replace('-', '_')}")
        host = typer.Typer(rich_markup_mode=None)
        if hasattr(module, "application"):
            host.add_typer(module.application, name=cmd_name)
        else:
            host.command(cmd_name)(getattr(module, cmd_name))
        return get_group(host).commands[cmd_name]


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
