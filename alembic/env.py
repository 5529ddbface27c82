"""What Alembic runs for every command: where the database is, and how its revisions are applied.

Each revision is a transaction of its own. Names without a schema get Headgate's. `headgate migrate`
comes with a connection; the `alembic` command has one opened, with the same turns and time limits.
"""

import asyncio
import os
from collections.abc import Collection
from logging.config import fileConfig
from typing import Any

from alembic import context
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext, MigrationInfo
from alembic.util import CommandError
from sqlalchemy import Connection, text
from sqlalchemy.schema import CreateSchema

from headgate.model.errors import HeadgateError
from headgate.queries.revisions import VERSION_TABLE, schema_exists
from headgate.store.migration import LOCK_TIMEOUT_MS, migrating, name_schema
from headgate.store.settings import StoreSettings
from headgate.tables import metadata

config = context.config
schema: str = config.attributes.get("schema") or os.environ.get("HEADGATE_SCHEMA") or "public"


def ours(name: str | None, kind: str, _parents: object) -> bool:
    """Whether autogenerate looks at it: neither the application's tables nor the months of the
    archive are in the metadata."""
    if kind != "table":
        return True
    return (
        name is not None
        and name.startswith("headgate_")
        and name != VERSION_TABLE
        and not name.startswith("headgate_job_archive_")
    )


def applied(
    ctx: MigrationContext, step: MigrationInfo, heads: Collection[Any], run_args: object
) -> None:
    config.attributes.setdefault("applied", []).append(step.up_revision_id)
    if not heads:
        Operations(ctx).drop_table(VERSION_TABLE, schema=schema)


def configure(**options: Any) -> None:
    context.configure(
        target_metadata=metadata,
        version_table=VERSION_TABLE,
        version_table_schema=schema,
        transaction_per_migration=True,
        on_version_apply=applied,
        include_name=ours,
        compare_server_default=True,
        **options,
    )


def run_offline() -> None:
    configure(dialect_name="postgresql+asyncpg", literal_binds=True)
    name_schema(context.get_context().dialect, schema)
    context.execute(text(f"SET lock_timeout = {LOCK_TIMEOUT_MS}"))
    if schema != "public":
        context.execute(CreateSchema(schema, if_not_exists=True))
    with context.begin_transaction():
        context.run_migrations()


def run(connection: Connection) -> None:
    # Not IF NOT EXISTS: that asks for the right to create schemas even where it exists.
    if not connection.scalar(schema_exists(), {"schema": schema}):
        connection.execute(CreateSchema(schema))
    connection.commit()
    configure(connection=connection)
    with context.begin_transaction():
        context.run_migrations()


if config.config_file_name is not None:
    fileConfig(config.config_file_name, disable_existing_loggers=False)

if context.is_offline_mode():
    run_offline()
elif "connection" in config.attributes:
    run(config.attributes["connection"])
else:
    try:
        asyncio.run(migrating(StoreSettings.from_environment(), run))
    except HeadgateError as error:
        raise CommandError(str(error)) from error
