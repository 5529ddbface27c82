"""`headgate context`: the installations that the other commands speak to, by name."""

from collections.abc import Callable
from typing import Annotated

import msgspec
import typer

from headgate.cli.commands import Format, Output, noun
from headgate.cli.control_api import ControlApi, Installation
from headgate.cli.display import console, table
from headgate.cli.installations import (
    Installations,
    config_file,
    read_installations,
    write_installations,
)
from headgate.model.errors import InvalidRequest, NotFound

application = noun("Name installations, and choose the one to speak to.")


def _known(incomplete: str) -> list[str]:
    return [n for n in read_installations(config_file()).contexts if n.startswith(incomplete)]


Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False, autocompletion=_known)]


@application.command("list")
def list_contexts(output: Format = Output.TABLE) -> None:
    """List the installations that have a name."""
    known = read_installations(config_file())
    rows = [
        {"name": name, "url": each.url, "token": bool(each.token), "current": name == known.current}
        for name, each in known.contexts.items()
    ]
    if output is Output.JSON:
        typer.echo(msgspec.json.encode(rows).decode())
    else:
        console().print(table(rows, ("name", "url", "token", "current")))


@application.command("set")
def set_context(
    name: Name,
    url: Annotated[str, typer.Argument(metavar="URL", show_default=False)],
    token: Annotated[
        str, typer.Option("--token", help="Kept in a file that only you can read.")
    ] = "",
) -> None:
    """Give an installation a name; the first one becomes the current one."""
    if not name:
        raise InvalidRequest("a context needs a name")
    installation = Installation(url.rstrip("/"), token)
    ControlApi(installation)  # refuses what is no URL

    def change(known: Installations) -> None:
        known.contexts[name] = installation
        known.current = known.current or name

    _change(change)
    typer.echo(f"{name} is {installation.url}")


@application.command()
def use(name: Name) -> None:
    """Speak to this installation unless told otherwise."""

    def change(known: Installations) -> None:
        _require(known, name)
        known.current = name

    _change(change)
    typer.echo(f"using {name}")


@application.command()
def remove(name: Name) -> None:
    """Forget the name of an installation."""

    def change(known: Installations) -> None:
        _require(known, name)
        del known.contexts[name]
        if known.current == name:
            known.current = ""

    _change(change)
    typer.echo(f"removed {name}")


def _require(known: Installations, name: str) -> None:
    if name not in known.contexts:
        raise NotFound(f"context {name}")


def _change(change: Callable[[Installations], None]) -> None:
    file = config_file()
    known = read_installations(file)
    change(known)
    write_installations(file, known)
