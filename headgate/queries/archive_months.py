"""The months of the archive: one partition each, made ahead of time and emptied as a whole.

A month is made beside the archive and then attached, which keeps neither evictions nor readers
waiting. What no month takes falls into the default partition.
"""

from functools import cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Executable,
    MetaData,
    Select,
    Table,
    Text,
    bindparam,
    case,
    column,
    exists,
    func,
    select,
    table,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import ExecutableDDLElement

from headgate.model.month import Month
from headgate.queries.clock import instant, now_ms
from headgate.queries.literals import number, word
from headgate.tables import job_archive

_PREFIX: Final = f"{job_archive.name}_"

_default = Table(f"{_PREFIX}default", MetaData(), Column("evicted_at_ms", BigInteger))


def _partition(month: Month) -> Table:
    return Table(
        f"{_PREFIX}{month}",
        MetaData(),
        Column("evicted_at_ms", BigInteger),
        Column("archive_retention_ms", BigInteger),
    )


class _Change(ExecutableDDLElement):
    def __init__(self, month: Month) -> None:
        self.month = month
        self.partition = _partition(month)


class MakeMonth(_Change):
    """A table for a month, with the columns and indexes of the archive."""


class AttachMonth(_Change):
    """Makes the table of a month a part of the archive."""


class CloseMonth(_Change):
    """Lets nobody write into a month until the end of the transaction; readers go on."""


class EmptyMonth(_Change):
    """Deletes all of a month."""


class DropMonth(_Change):
    """Takes the place of a month away."""


class LockArchive(ExecutableDDLElement):
    """Keeps everybody out of the archive until the end of the transaction."""


@compiles(MakeMonth, "postgresql")
def _make(element: MakeMonth, compiler: Any, **_: Any) -> str:
    name = compiler.preparer.format_table(element.partition)
    return f"CREATE TABLE {name} (LIKE {compiler.preparer.format_table(job_archive)} INCLUDING ALL)"


@compiles(AttachMonth, "postgresql")
def _attach(element: AttachMonth, compiler: Any, **_: Any) -> str:
    name = compiler.preparer.format_table(element.partition)
    return (
        f"ALTER TABLE {compiler.preparer.format_table(job_archive)} ATTACH PARTITION {name}"
        f" FOR VALUES FROM ({element.month.begins_ms}) TO ({element.month.next().begins_ms})"
    )


@compiles(CloseMonth, "postgresql")
def _close(element: CloseMonth, compiler: Any, **_: Any) -> str:
    name = compiler.preparer.format_table(element.partition)
    return f"LOCK TABLE {name} IN SHARE ROW EXCLUSIVE MODE"


@compiles(EmptyMonth, "postgresql")
def _empty(element: EmptyMonth, compiler: Any, **_: Any) -> str:
    return f"TRUNCATE {compiler.preparer.format_table(element.partition)}"


@compiles(DropMonth, "postgresql")
def _drop(element: DropMonth, compiler: Any, **_: Any) -> str:
    return f"DROP TABLE {compiler.preparer.format_table(element.partition)}"


@compiles(LockArchive, "postgresql")
def _lock(element: LockArchive, compiler: Any, **_: Any) -> str:
    return f"LOCK TABLE {compiler.preparer.format_table(job_archive)} IN ACCESS EXCLUSIVE MODE"


@cache
def make_month(month: Month) -> Executable:
    return MakeMonth(month)


@cache
def attach_month(month: Month) -> Executable:
    return AttachMonth(month)


@cache
def close_month(month: Month) -> Executable:
    return CloseMonth(month)


@cache
def empty_month(month: Month) -> Executable:
    return EmptyMonth(month)


@cache
def drop_month(month: Month) -> Executable:
    return DropMonth(month)


@cache
def lock_archive() -> Executable:
    return LockArchive()


@cache
def try_archive_turn() -> Select[Any]:
    """A row (ours, now_ms): whether the transaction may change the months of `in_schema`."""
    name = func.concat(word("headgate archive of "), bindparam("in_schema", type_=Text))
    turn = func.pg_try_advisory_xact_lock(func.hashtextextended(name, number(0)))
    return select(turn.label("ours"), instant().label("now_ms"))


@cache
def archive_months() -> Select[Any]:
    """The months of the archive in `in_schema`, in order: (month, rows_estimated, bytes, now_ms).

    Rows as of the last analysis; -1 where there was none.
    """
    parent, child = _catalog("pg_class", "parent"), _catalog("pg_class", "child")
    inherits, namespace = _catalog("pg_inherits", "inherits"), _catalog("pg_namespace", "namespace")
    month = func.substr(child.c.relname, number(len(_PREFIX) + 1), type_=Text)
    return (
        select(
            month.label("month"),
            child.c.reltuples.cast(BigInteger).label("rows_estimated"),
            func.pg_total_relation_size(child.c.oid).label("bytes"),
            instant().label("now_ms"),
        )
        .select_from(
            namespace.join(parent, parent.c.relnamespace == namespace.c.oid)
            .join(inherits, inherits.c.inhparent == parent.c.oid)
            .join(child, child.c.oid == inherits.c.inhrelid)
        )
        .where(
            namespace.c.nspname == bindparam("in_schema", type_=Text),
            parent.c.relname == bindparam("archive_name", job_archive.name, type_=Text),
            month != word("default"),
        )
        .order_by(child.c.relname)
    )


@cache
def month_holds(month: Month, *, in_default: bool = False) -> Select[Any]:
    """Whether the partition of the month, or the default one, has rows of it."""
    rows = _default if in_default else _partition(month)
    return select(
        exists(
            select(number(1))
            .select_from(rows)
            .where(
                rows.c.evicted_at_ms >= number(month.begins_ms),
                rows.c.evicted_at_ms < number(month.next().begins_ms),
            )
        ).label("holds")
    )


@cache
def month_contents(month: Month) -> Select[Any]:
    """A row (rows, prunable) of a month: whether it is over, and with it the time of all rows."""
    rows = _partition(month)
    lapses = rows.c.evicted_at_ms + rows.c.archive_retention_ms
    now = now_ms()
    last: ColumnElement[int] = func.coalesce(func.max(lapses), number(0))
    over = now >= number(month.next().begins_ms)
    return select(
        func.count().label("rows"), case((over, last <= now), else_=over).label("prunable")
    ).select_from(rows)


def _catalog(name: str, alias: str) -> Any:
    columns = {
        "pg_class": ("oid", "relname", "relnamespace", "reltuples"),
        "pg_inherits": ("inhrelid", "inhparent"),
        "pg_namespace": ("oid", "nspname"),
    }[name]
    return table(name, *(column(each) for each in columns), schema="pg_catalog").alias(alias)
