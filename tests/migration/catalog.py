"""What PostgreSQL's own catalogs say of a schema, in a form that compares across schemas."""

from typing import Final

import asyncpg

from headgate.queries.revisions import VERSION_TABLE

# Nothing is in the search path then, so every definition names schemas in full.
_SEARCH_NOTHING: Final = "SELECT set_config('search_path', '', false)"

_QUERIES: Final = {
    "relation": """
        SELECT relname::text, relkind::text, array_to_string(reloptions, ' '), relpersistence::text,
               relispartition::text, pg_get_expr(relpartbound, oid), pg_get_partkeydef(oid)
        FROM pg_class AS relation
        WHERE relnamespace = to_regnamespace(quote_ident($1))
    """,
    "parent": """
        SELECT relname::text, inhparent::regclass::text
        FROM pg_class AS relation JOIN pg_inherits ON inhrelid = relation.oid
        WHERE relnamespace = to_regnamespace(quote_ident($1))
    """,
    "column": """
        SELECT relname::text, attnum::text, attname::text, format_type(atttypid, atttypmod),
               attnotnull::text, attidentity::text, attgenerated::text, collname::text,
               pg_get_expr(adbin, adrelid), attstorage::text, attcompression::text
        FROM pg_class AS relation
        JOIN pg_attribute ON attrelid = relation.oid AND attnum > 0 AND NOT attisdropped
        LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        LEFT JOIN pg_collation ON pg_collation.oid = attcollation
        WHERE relnamespace = to_regnamespace(quote_ident($1))
    """,
    "constraint": """
        SELECT relname::text, conname::text, pg_get_constraintdef(pg_constraint.oid),
               convalidated::text
        FROM pg_class AS relation JOIN pg_constraint ON conrelid = relation.oid
        WHERE relnamespace = to_regnamespace(quote_ident($1))
    """,
    "index": """
        SELECT relname::text, pg_get_indexdef(indexrelid), indisvalid::text, indisprimary::text
        FROM pg_class AS relation JOIN pg_index ON indexrelid = relation.oid
        WHERE relnamespace = to_regnamespace(quote_ident($1))
    """,
    "sequence": """
        SELECT relname::text, format_type(seqtypid, NULL), seqstart::text, seqincrement::text,
               seqmax::text, seqcycle::text, refobjid::regclass::text, refobjsubid::text
        FROM pg_class AS relation
        JOIN pg_sequence ON seqrelid = relation.oid
        LEFT JOIN pg_depend ON objid = relation.oid AND deptype = 'a'
        WHERE relnamespace = to_regnamespace(quote_ident($1))
    """,
    "trigger": """
        SELECT relname::text, tgname::text, pg_get_triggerdef(pg_trigger.oid), tgenabled::text
        FROM pg_class AS relation
        JOIN pg_trigger ON tgrelid = relation.oid AND NOT tgisinternal
        WHERE relnamespace = to_regnamespace(quote_ident($1))
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
        things: set[tuple[str, ...]] = set()
        for kind, query in _QUERIES.items():
            for row in await connection.fetch(query, schema):
                things.add((kind, *(str(value).replace(quoted, "~.") for value in row)))
        return frozenset(thing for thing in things if not thing[1].startswith(VERSION_TABLE))
    finally:
        await connection.close()
