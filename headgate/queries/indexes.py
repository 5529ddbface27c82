"""The indexes of the schema: how they are, and how they are rebuilt beside running work."""

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnClause,
    MetaData,
    Select,
    Table,
    Text,
    and_,
    any_,
    bindparam,
    column,
    func,
    not_,
    or_,
    select,
    table,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import ExecutableDDLElement

from headgate.queries.literals import number, word
from headgate.tables import job_archive, metadata

_LEFTOVER: Final = r"_cc(new|old)[0-9]*$"
"""How PostgreSQL names what it builds or replaces beside an index that is in use."""

_CATALOG: Final = {
    "pg_index": ("indexrelid", "indrelid", "indisvalid"),
    "pg_class": ("oid", "relname", "relnamespace", "relkind", "reltuples"),
    "pg_namespace": ("oid", "nspname"),
    "pg_stat_all_indexes": ("indexrelid", "idx_scan", "idx_tup_read"),
}


class ChangeIndex(ExecutableDDLElement):
    """Something that is done to an index while everybody goes on. Outside any transaction."""

    def __init__(self, action: str, name: str) -> None:
        self.action = action
        self.name = name


@compiles(ChangeIndex, "postgresql")
def _change(element: ChangeIndex, compiler: Any, **_: Any) -> str:
    # An index has no construct that could stand alone; a table of its name gets the same schema.
    name = compiler.preparer.format_table(Table(element.name, MetaData()))
    return f"{element.action} {name}"


def rebuild_index(name: str) -> ChangeIndex:
    return ChangeIndex("REINDEX INDEX CONCURRENTLY", name)


def drop_index(name: str) -> ChangeIndex:
    return ChangeIndex("DROP INDEX CONCURRENTLY IF EXISTS", name)


@cache
def try_rebuild_turn() -> Select[Any]:
    """True when the session may rebuild the indexes of `in_schema`."""
    name = func.concat(word("headgate indexes of "), bindparam("in_schema", type_=Text))
    return select(func.pg_try_advisory_lock(func.hashtextextended(name, number(0))))


@cache
def index_health() -> Select[Any]:
    """The indexes of our tables in `in_schema`, by name, as `IndexHealth` has them."""
    index, place = _catalog("pg_index"), _catalog("pg_namespace")
    named, of_table = _catalog("pg_class", "named"), _catalog("pg_class", "of_table")
    used = _catalog("pg_stat_all_indexes", "used")
    leftover = named.c.relname.op("~")(bindparam("leftover", _LEFTOVER, type_=Text))
    tables: Sequence[str] = sorted(metadata.tables)
    ours = or_(
        of_table.c.relname == any_(bindparam("table_names", tables, type_=ARRAY(Text))),
        func.starts_with(of_table.c.relname, bindparam("months", f"{job_archive.name}_")),
    )
    return (
        select(
            named.c.relname.label("name"),
            of_table.c.relname.label("table"),
            index.c.indisvalid.label("valid"),
            and_(leftover, not_(index.c.indisvalid)).label("leftover"),
            func.pg_relation_size(named.c.oid).label("bytes"),
            func.greatest(of_table.c.reltuples.cast(BigInteger), number(0)).label("rows_estimated"),
            func.coalesce(used.c.idx_scan, number(0)).label("scans"),
            func.coalesce(used.c.idx_tup_read, number(0)).label("entries_read"),
        )
        .select_from(
            index.join(named, named.c.oid == index.c.indexrelid)
            .join(of_table, of_table.c.oid == index.c.indrelid)
            .join(place, place.c.oid == of_table.c.relnamespace)
            .outerjoin(used, used.c.indexrelid == index.c.indexrelid)
        )
        .where(
            place.c.nspname == bindparam("in_schema", type_=Text),
            ours,
            named.c.relkind == word("i"),
        )
        .order_by(named.c.relname)
    )


def _catalog(name: str, alias: str | None = None) -> Any:
    columns: list[ColumnClause[Any]] = [column(each) for each in _CATALOG[name]]
    return table(name, *columns, schema="pg_catalog").alias(alias or name)
