"""What all commands over the control API have in common: where it is, and how answers are shown.

A command is a function that takes the API first, then its own parameters, and returns the answer:

    @reading(application, "list", shows=Listing("queue", "weight"))
    def list_queues(api: ControlApi) -> Iterable[Any]:
        \"\"\"List queues.\"\"\"
        return api.listed("/queues")

The decorator gives it the options that every such command has.
"""

import inspect
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Annotated, Any, Final, Protocol, TypeVar

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text
from typer.core import TyperGroup

from headgate.cli.control_api import ControlApi
from headgate.cli.display import Fields, console, sheet, table
from headgate.cli.installations import config_file, find_installation, read_installations
from headgate.model.errors import HeadgateError

Function = TypeVar("Function", bound=Callable[..., Any])


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"


def _context_names(incomplete: str) -> list[str]:
    with suppress(HeadgateError):
        known = read_installations(config_file()).contexts
        return [name for name in known if name.startswith(incomplete)]
    return []


Context = Annotated[
    str | None,
    typer.Option(
        "--context",
        help="An installation of `headgate context`; by default HEADGATE_CONTEXT or the current.",
        autocompletion=_context_names,
        show_default=False,
    ),
]
Api = Annotated[
    str | None,
    typer.Option(
        "--api", help="The URL of an installation; by default HEADGATE_API.", show_default=False
    ),
]
Token = Annotated[
    str | None,
    typer.Option("--token", help="Who asks; by default HEADGATE_TOKEN.", show_default=False),
]
Format = Annotated[
    Output, typer.Option("--output", "-o", help="A table for people, or JSON for programs.")
]
Watch = Annotated[
    bool, typer.Option("--watch", "-w", help="Show it again and again, until Ctrl-C.")
]
Every = Annotated[
    float, typer.Option("--every", help="Seconds between two looks of --watch.", min=0.1)
]
Key = Annotated[
    str,
    typer.Option(
        "--idempotency-key",
        help="Names this change: repeated under the same key, it is made once.",
        show_default=False,
    ),
]
Limit = Annotated[int, typer.Option("--limit", help="How many at most.", min=1)]
Ids = Annotated[list[str], typer.Argument(metavar="ID...", show_default=False)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]


class View(Protocol):
    """How an answer is shown to people."""

    def draw(self, answer: Any) -> RenderableType: ...


class Listing(msgspec.Struct, frozen=True):
    """A table of rows with these columns."""

    fields: Fields

    def draw(self, answer: Any) -> RenderableType:
        return table(answer, self.fields)


class Sheet(msgspec.Struct, frozen=True):
    """One thing: these fields of it, or all. `lists` are shown as tables below."""

    fields: Fields = ()
    lists: Mapping[str, Fields] = {}

    def draw(self, answer: Any) -> RenderableType:
        rest = {name: value for name, value in answer.items() if name not in self.lists}
        parts: list[RenderableType] = [sheet(rest, self.fields)]
        for name, columns in self.lists.items():
            if answer.get(name):
                parts += [Text(f"\n{name}", style="bold"), table(answer[name], columns)]
        return Group(*parts)


class Done(msgspec.Struct, frozen=True):
    """What a change says to people, and to programs what the API answered, if anything."""

    message: str
    answer: Any = None
    exit_code: int = 0


def noun(help: str, group: type[TyperGroup] = TyperGroup) -> typer.Typer:
    """A group of commands."""
    return typer.Typer(help=help, cls=group, no_args_is_help=True, rich_markup_mode=None)


def reading(application: typer.Typer, name: str, *, shows: View) -> Callable[[Function], Function]:
    """Makes a function that returns an answer of the API a command that shows it."""

    def run(call: Callable[[], Any], given: Mapping[str, Any]) -> None:
        if given["watch"]:
            with suppress(KeyboardInterrupt):
                _watch(call, shows, given["output"], given["every"])
        else:
            _show(_whole(call()), shows, given["output"])

    return _command(application, name, run, {**_OUTPUT, **_WATCH})


def changing(application: typer.Typer, name: str) -> Callable[[Function], Function]:
    """Makes a function that changes something and returns `Done` a command that says so."""

    def run(call: Callable[[], Any], given: Mapping[str, Any]) -> None:
        done: Done = call()
        if given["output"] is Output.TABLE:
            typer.echo(done.message)
        elif done.answer is not None:
            typer.echo(msgspec.json.encode(done.answer).decode())
        if done.exit_code:
            raise typer.Exit(done.exit_code)

    return _command(application, name, run, {**_KEY, **_OUTPUT})


def confirmed(question: str, *, yes: bool) -> None:
    """Goes on when the answer is yes; ends the command otherwise, and where nobody can be asked."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter("nobody can be asked: say --yes")
    typer.confirm(question, abort=True)


_CONNECTION: Final[Mapping[str, tuple[Any, Any]]] = {
    "context": (Context, None),
    "url": (Api, None),
    "token": (Token, None),
}
_OUTPUT: Final[Mapping[str, tuple[Any, Any]]] = {"output": (Format, Output.TABLE)}
_WATCH: Final[Mapping[str, tuple[Any, Any]]] = {"watch": (Watch, False), "every": (Every, 2.0)}
_KEY: Final[Mapping[str, tuple[Any, Any]]] = {"idempotency_key": (Key, "")}


def _command(
    application: typer.Typer,
    name: str,
    run: Callable[[Callable[[], Any], Mapping[str, Any]], None],
    options: Mapping[str, tuple[Any, Any]],
) -> Callable[[Function], Function]:
    shared = {**options, **_CONNECTION}

    def register(function: Function) -> Function:
        own = list(inspect.signature(function).parameters.values())[1:]
        parameters = own + [
            inspect.Parameter(
                each, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default
            )
            for each, (annotation, default) in shared.items()
        ]

        def command(**arguments: Any) -> None:
            given = {each: arguments.pop(each) for each in shared}
            installation = find_installation(
                context=given["context"], url=given["url"], token=given["token"]
            )
            api = ControlApi(installation, idempotency_key=given.get("idempotency_key", ""))
            run(lambda: function(api, **arguments), given)

        command.__doc__ = function.__doc__
        command.__annotations__ = {each.name: each.annotation for each in parameters}
        # Typer reads the parameters of a command from its signature.
        vars(command)["__signature__"] = inspect.Signature(
            [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
        )
        application.command(name)(command)
        return function

    return register


def _whole(answer: Any) -> Any:
    return list(answer) if isinstance(answer, Iterable) and not isinstance(answer, dict) else answer


def _show(answer: Any, shows: View, output: Output) -> None:
    if output is Output.JSON:
        typer.echo(msgspec.json.encode(answer).decode())
    else:
        console().print(shows.draw(answer))


def _watch(call: Callable[[], Any], shows: View, output: Output, every_s: float) -> None:
    out = console()
    if output is Output.JSON or not out.is_terminal:
        while True:
            _show(_whole(call()), shows, output)
            sys.stdout.flush()
            time.sleep(every_s)
    with Live(console=out, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            live.update(shows.draw(_whole(call())), refresh=True)
            time.sleep(every_s)


def said(action: str, names: Sequence[str]) -> str:
    """What was done, to what."""
    return f"{action} {names[0]}" if len(names) == 1 else f"{action} {len(names)}"
