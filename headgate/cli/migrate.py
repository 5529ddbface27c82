"""`headgate migrate`: the schema of Headgate in a database, brought up to date or taken out."""

import asyncio
from typing import Annotated

import typer

from headgate.model.errors import InvalidRequest
from headgate.store import migration
from headgate.store.settings import StoreSettings

EXIT_USAGE = 2

application = typer.Typer(help="The schema of Headgate in a database.", no_args_is_help=True)

DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        envvar="HEADGATE_DATABASE_URL",
        help="Such as postgresql://user@host/database; a direct connection, not a pooler's.",
        show_default=False,
    ),
]
Schema = Annotated[
    str,
    typer.Option(
        "--schema", envvar="HEADGATE_SCHEMA", help="The PostgreSQL schema that holds the tables."
    ),
]


@application.command()
def up(database_url: DatabaseUrl = None, schema: Schema = "public") -> None:
    """Bring the schema to the newest revision. Safe while jobs run, and from many hosts at once."""
    dsn = _checked(database_url, schema)
    applied = asyncio.run(migration.upgrade(dsn, schema))
    for revision in applied:
        typer.echo(f"schema {schema}: applied {revision}")
    if not applied:
        typer.echo(f"schema {schema}: nothing to apply")


@application.command()
def down(
    database_url: DatabaseUrl = None,
    schema: Schema = "public",
    to: Annotated[
        str, typer.Option("--to", help="The revision to go back to; `base` is before the first.")
    ] = "base",
    confirm: Annotated[
        bool, typer.Option("--confirm", help="What the revisions hold is deleted: jobs and all.")
    ] = False,
) -> None:
    """Take revisions back, with the data in them."""
    dsn = _checked(database_url, schema)
    if not confirm:
        raise _usage(f"this deletes what is in schema {schema}, jobs and all; say --confirm")
    taken = asyncio.run(migration.downgrade(dsn, schema, target=to))
    for revision in taken:
        typer.echo(f"schema {schema}: took back {revision}")
    if not taken:
        typer.echo(f"schema {schema}: nothing to take back")


@application.command()
def status(database_url: DatabaseUrl = None, schema: Schema = "public") -> None:
    """Print the revisions of the database and of this code, one per line."""
    found = asyncio.run(migration.status(_checked(database_url, schema), schema))
    typer.echo(f"database  {found.database or 'none'}")
    typer.echo(f"code      {found.code}")
    typer.echo(f"minimum   {found.minimum or 'none'}")


@application.command()
def sql(
    schema: Schema = "public",
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            help="The revision that the database is at.  [default: none]",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Print the statements of `up`, for someone else to run."""
    typer.echo(asyncio.run(migration.offline_sql(schema, since=since)), nl=False)


def _checked(database_url: str | None, schema: str) -> str:
    if database_url is None:
        raise _usage("say --database-url or set HEADGATE_DATABASE_URL")
    try:
        StoreSettings(dsn=database_url, schema=schema)
    except InvalidRequest as error:
        raise _usage(error.message) from None
    return database_url


def _usage(message: str) -> typer.Exit:
    typer.echo(f"headgate: {message}", err=True)
    return typer.Exit(EXIT_USAGE)
