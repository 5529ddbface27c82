"""What PostgreSQL's own catalogs say of a schema, in a form that compares across schemas."""

from typing import Final

import asyncpg

# Nothing is in the search path then, so every definition names schemas in full.
_SEARCH_NOTHING: Final = "SELECT set_config('search_path', '', false)"

_RELATIONS: Final = """
    SELECT c.oid, c.relname AS name, c.relkind, c.reloptions, c.relpersistence,
           c.relispartition, c.relpartbound
    FROM pg_class c WHERE c.relnamespace = to_regnamespace(quote_ident($1))
      AND c.relname !~ '^headgate_schema_version'
"""

_QUERIES: Final = {
    "relation": f"""
        SELECT name, relkind::text, array_to_string(reloptions, ' '), relpersistence::text,
               relispartition::text, pg_get_expr(relpartbound, oid), pg_get_partkeydef(oid)
        FROM ({_RELATIONS}) AS relation
    """,
    "parent": f"""
        SELECT name, inhparent::regclass::text
        FROM ({_RELATIONS}) AS relation JOIN pg_inherits ON inhrelid = oid
    """,
    "column": f"""
        SELECT name, attnum::text, attname::text, format_type(atttypid, atttypmod),
               attnotnull::text, attidentity::text, attgenerated::text, collname::text,
               pg_get_expr(adbin, adrelid), attstorage::text, attcompression::text
        FROM ({_RELATIONS}) AS relation
        JOIN pg_attribute ON attrelid = relation.oid AND attnum > 0 AND NOT attisdropped
        LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        LEFT JOIN pg_collation ON pg_collation.oid = attcollation
    """,
    "constraint": f"""
        SELECT name, conname::text, pg_get_constraintdef(pg_constraint.oid), convalidated::text
        FROM ({_RELATIONS}) AS relation JOIN pg_constraint ON conrelid = relation.oid
    """,
    "index": f"""
        SELECT name, pg_get_indexdef(indexrelid), indisvalid::text, indisprimary::text
        FROM ({_RELATIONS}) AS relation JOIN pg_index ON indexrelid = relation.oid
    """,
    "sequence": f"""
        SELECT name, format_type(seqtypid, NULL), seqstart::text, seqincrement::text,
               seqmax::text, seqcycle::text, refobjid::regclass::text, refobjsubid::text
        FROM ({_RELATIONS}) AS relation
        JOIN pg_sequence ON seqrelid = relation.oid
        LEFT JOIN pg_depend ON objid = relation.oid AND deptype = 'a'
    """,
    "trigger": f"""
        SELECT name, tgname::text, pg_get_triggerdef(pg_trigger.oid), tgenabled::text
        FROM ({_RELATIONS}) AS relation
        JOIN pg_trigger ON tgrelid = relation.oid AND NOT tgisinternal
    """,
    "function": """
        SELECT proname::text, pg_get_functiondef(oid) FROM pg_proc
        WHERE pronamespace = to_regnamespace(quote_ident($1))
    """,
    "enum": """
        SELECT typname::text, string_agg(enumlabel, ' ' ORDER BY enumsortorder)
        FROM pg_type JOIN pg_enum ON enumtypid = pg_type.oid
        WHERE typnamespace = to_regnamespace(quote_ident($1)) GROUP BY typname
    """,
}

Catalog = frozenset[tuple[str, ...]]


async def read_catalog(dsn: str, schema: str = "public") -> Catalog:
    """One tuple for each thing in the schema but the table of Alembic: what it is and how.

    Names in the schema begin with `~.`, whatever its name is.
    """
    connection = await asyncpg.connect(dsn)
    try:
        await connection.fetch(_SEARCH_NOTHING)
        quoted = await connection.fetchval("SELECT quote_ident($1) || '.'", schema)
        return frozenset(
            (kind, *(str(value).replace(quoted, "~.") for value in row))
            for kind, query in _QUERIES.items()
            for row in await connection.fetch(query, schema)
        )
    finally:
        await connection.close()
