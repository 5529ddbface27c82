"""Statements about whole databases.

PostgreSQL takes no parameter in the place of a database's name; SQLAlchemy quotes it by its rules.
"""

from typing import Any

import asyncpg
from sqlalchemy.engine import make_url
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import ExecutableDDLElement
from sqlalchemy.sql.compiler import DDLCompiler

DIALECT = make_url("postgresql+asyncpg://").get_dialect()()


class CreateDatabase(ExecutableDDLElement):
    """CREATE DATABASE as a copy of `template`.

    `strategy` is PostgreSQL's: `wal_log` goes through the buffers and the log, `file_copy` copies
    files between two checkpoints; None leaves the choice to the server.
    """

    inherit_cache = False

    def __init__(self, name: str, *, template: str, strategy: str | None = None) -> None:
        self.name = name
        self.template = template
        self.strategy = strategy


class DropDatabase(ExecutableDDLElement):
    """DROP DATABASE, if it is there, whoever is still connected to it."""

    inherit_cache = False

    def __init__(self, name: str) -> None:
        self.name = name


@compiles(CreateDatabase)
def _create(element: CreateDatabase, compiler: DDLCompiler, **_: Any) -> str:
    quote = compiler.preparer.quote
    parts = ["CREATE DATABASE", quote(element.name), "TEMPLATE", quote(element.template)]
    if element.strategy is not None:
        parts += ["STRATEGY", quote(element.strategy)]
    return " ".join(parts)


@compiles(DropDatabase)
def _drop(element: DropDatabase, compiler: DDLCompiler, **_: Any) -> str:
    name = compiler.preparer.quote(element.name)
    return " ".join(("DROP DATABASE IF EXISTS", name, "WITH (FORCE)"))


async def execute_ddl(connection: "asyncpg.Connection[Any]", element: ExecutableDDLElement) -> None:
    """Run `element` outside any transaction, as statements about databases must be."""
    await connection.execute(str(element.compile(dialect=DIALECT)))


def dsn_of(dsn: str, database: str) -> str:
    """`dsn` with another database in it."""
    return make_url(dsn).set(database=database).render_as_string(hide_password=False)
