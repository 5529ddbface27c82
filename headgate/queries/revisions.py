"""What the database says of its schema, and the turn of whoever migrates it."""

from functools import cache
from typing import Any

from sqlalchemy import (
    Column,
    MetaData,
    Select,
    Table,
    Text,
    bindparam,
    column,
    func,
    literal_column,
    select,
    table,
)

from headgate.tables import compatibility

VERSION_TABLE = "headgate_schema_version"
"""Where the migrations note the revision of the schema; it lives in Headgate's own schema."""

# Not in the metadata of the schema, since Alembic makes it.
_version = Table(VERSION_TABLE, MetaData(), Column("version_num", Text))


@cache
def installed_revision() -> Select[Any]:
    """The revision of the schema and the oldest revision whose code still works with it."""
    newest = func.max(compatibility.c.minimum_revision)
    minimum = select(func.coalesce(newest, literal_column("''"))).scalar_subquery()
    return select(
        _version.c.version_num.label("revision"),
        minimum.label("minimum_revision"),
    )


@cache
def try_migration_turn() -> Select[Any]:
    """True when the session got the advisory lock called `name`, false when another has it.

    It never waits: a session that waits inside a statement would hold up a concurrent index build
    of the session that has the lock, for ever.
    """
    key = func.hashtextextended(bindparam("name", type_=Text), literal_column("0"))
    return select(func.pg_try_advisory_lock(key))


@cache
def schema_exists() -> Select[Any]:
    """How many schemas are called `schema`: one or none."""
    namespace = table("pg_namespace", column("nspname"), schema="pg_catalog")
    return (
        select(func.count())
        .select_from(namespace)
        .where(namespace.c.nspname == bindparam("schema"))
    )
