"""Which revision of the schema a database has, and whether this code may work with it.

Revisions are four digits and compare as text. A database may be ahead of the code, which is how a
rolling deploy goes: it is migrated first, and records the oldest code that still works with it.
"""

from typing import Final

import msgspec

from headgate.model.errors import SchemaIncompatible, SchemaMissing
from headgate.queries.revisions import installed_revision
from headgate.store.database import Database

NEWEST: Final = "0001"
"""The newest revision that this code knows."""

NEEDED: Final = "0001"
"""The oldest revision that this code works with."""


class Installed(msgspec.Struct, frozen=True):
    """What a database records: its revision, and the oldest code that works with it."""

    revision: str
    minimum_revision: str


async def installed(database: Database) -> Installed | None:
    """The revision of the database; None when Headgate is not installed in its schema.

    Raises `StoreError` when the database cannot tell.
    """
    try:
        rows = await database.fetch(installed_revision())
    except SchemaMissing:
        return None
    return Installed(**rows[0]) if rows else None


async def check(database: Database) -> None:
    """Passes when this code may use the database, which is asked once.

    Raises `SchemaMissing` when there is no schema or one that is too old, `SchemaIncompatible`
    when it was migrated past this code, and other `StoreError`s when the database cannot tell.
    """
    found = await installed(database)
    if found is None:
        raise SchemaMissing(
            f"schema {database.settings.schema} has no tables of Headgate;"
            " run `headgate migrate up`"
        )
    if found.revision < NEEDED:
        raise SchemaMissing(
            f"the database is at revision {found.revision} and this code needs {NEEDED};"
            " run `headgate migrate up`"
        )
    if found.minimum_revision > NEWEST:
        raise SchemaIncompatible(
            f"the database is at revision {found.revision} and works with code of revision"
            f" {found.minimum_revision} or newer; this code is of {NEWEST}"
        )


def refuse_unknown(found: Installed | None) -> None:
    """Raises `SchemaIncompatible` when the database is ahead, since only newer code knows how to
    migrate it from there, up or down.
    """
    if found is not None and found.revision > NEWEST:
        raise SchemaIncompatible(
            f"the database is at revision {found.revision}, which this code does not know;"
            f" the newest that it knows is {NEWEST}"
        )
