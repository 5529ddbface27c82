"""`headgate archive`: which queues keep copies of their evicted jobs, and the months of those."""

from typing import Annotated

import typer

from headgate.cli.stores import print_table, with_store
from headgate.model.archive import ArchivePolicy
from headgate.model.errors import InvalidRequest
from headgate.model.page import PageRequest
from headgate.store.store import Store

application = typer.Typer(
    help="Look after the archive of the database in HEADGATE_DATABASE_URL.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@application.command("keep")
def keep(
    queue: Annotated[str, typer.Argument(help="The queue whose evicted jobs are archived.")],
    retention_ms: Annotated[
        int | None,
        typer.Argument(metavar="[MILLISECONDS]", help="For how long.", show_default=False),
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="Archive nothing more of it.")] = False,
) -> None:
    """Archive what is evicted of a queue from now on. What is archived keeps its own time."""
    if (retention_ms is None) != off:
        raise InvalidRequest("say for how many milliseconds, or --off")
    if retention_ms is None:
        with_store(lambda store: store.archive.clear_policy(queue))
    else:
        with_store(lambda store: store.archive.set_policy(queue, retention_ms))


@application.command()
def policies() -> None:
    """List the queues whose evicted jobs are archived, and for how many milliseconds."""
    for policy in with_store(_all_policies):
        typer.echo(f"{policy.queue}  {policy.archive_retention_ms}")


@application.command()
def months() -> None:
    """List the months that the archive has a place for."""
    found = with_store(lambda store: store.archive.months())
    heading = ("month", "state", "rows, about", "bytes")
    rows = (
        (
            each.month,
            "open" if each.open else "over",
            "unknown" if each.rows_estimated is None else each.rows_estimated,
            each.bytes,
        )
        for each in found
    )
    print_table(heading, *rows)


@application.command()
def prune(month: Annotated[str, typer.Argument(metavar="YYYYMM")]) -> None:
    """Empty a month that is over, and with it the retention of all its jobs, at once."""
    count = with_store(lambda store: store.archive.prune_month(month))
    typer.echo(f"deleted {count} jobs of {month}")


async def _all_policies(store: Store) -> list[ArchivePolicy]:
    request = PageRequest()
    found: list[ArchivePolicy] = []
    while True:
        page = await store.archive.policies(request)
        found += page.items
        if page.next_cursor is None:
            return found
        request = PageRequest(cursor=page.next_cursor)
