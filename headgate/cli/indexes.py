"""`headgate indexes`: how the indexes are, and rebuilding them."""

from typing import Annotated

import typer

from headgate.cli.stores import print_table, with_store
from headgate.model.errors import InvalidRequest
from headgate.model.indexes import IndexHealth

application = typer.Typer(
    help="Look after the indexes of the database in HEADGATE_DATABASE_URL.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@application.command()
def check() -> None:
    """List the indexes; exit code 1 when one of them is invalid or left over."""
    indexes = with_store(lambda store: store.indexes.health())
    heading = ("index", "table", "state", "bytes", "rows", "scans", "entries read")
    print_table(
        heading,
        *(
            (
                each.name,
                each.table,
                _state(each),
                each.bytes,
                each.rows_estimated,
                each.scans,
                each.entries_read,
            )
            for each in indexes
        ),
    )
    if not all(each.valid for each in indexes):
        raise typer.Exit(1)


@application.command()
def rebuild(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[INDEX]...", show_default=False)
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All of them, one after the other.")] = False,
    invalid: Annotated[bool, typer.Option("--invalid", help="Those that are invalid.")] = False,
) -> None:
    """Rebuild indexes while everybody goes on, and drop what interrupted rebuilds left."""
    if bool(names) + every + invalid != 1:
        raise InvalidRequest("say which indexes, --invalid or --all")
    chosen = names or [
        each.name
        for each in with_store(lambda store: store.indexes.health())
        if not each.leftover and (every or not each.valid)
    ]
    for leftover in with_store(lambda store: store.indexes.rebuild(chosen)):
        typer.echo(f"dropped {leftover}")
    for name in chosen:
        typer.echo(f"rebuilt {name}")


def _state(index: IndexHealth) -> str:
    if index.valid:
        return "valid"
    return "left over" if index.leftover else "invalid"
