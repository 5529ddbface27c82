"""How PostgreSQL carries a statement of ours out, with a plan made for any parameters or for these.

A bound EXPLAIN would always be planned for its parameters; prepared statements are planned as the
session says.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from sqlalchemy import Executable

from headgate.store.compilation import Compiled
from tests.store.rows import Observer

PlanMode = Literal["force_generic_plan", "force_custom_plan"]
MODES: tuple[PlanMode, ...] = ("force_generic_plan", "force_custom_plan")

Node = dict[str, Any]

# The server quotes the parameters.
_CALL = """
SELECT format('EXPLAIN (%s) EXECUTE guarded', $1::text) ||
  CASE WHEN cardinality($2::text[]) > 0 THEN '(' || (
    SELECT string_agg(quote_nullable(value), ', ' ORDER BY place)
    FROM unnest($2::text[]) WITH ORDINALITY AS given(value, place)) || ')'
  ELSE '' END
"""


async def plan_of(
    observer: Observer,
    statement: Executable,
    parameters: Mapping[str, Any],
    mode: PlanMode,
    *,
    run: bool = True,
) -> list[Node]:
    """Every node of the plan, the first one on top of the others.

    With `run` the statement runs, and is undone; each node then tells what it read.
    """
    compiled = Compiled(statement, "public")
    arguments = [_literal(value) for value in compiled.arguments(parameters)]
    await observer.execute("PREPARE guarded AS " + compiled.sql)
    transaction = observer.transaction()
    await transaction.start()
    try:
        await observer.execute("SELECT set_config('plan_cache_mode', $1, true)", mode)
        options = "ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON" if run else "FORMAT JSON"
        answer = await observer.fetchval(await observer.fetchval(_CALL, options, arguments))
    finally:
        await transaction.rollback()
        await observer.execute("DEALLOCATE guarded")
    return list(_nodes(json.loads(answer)[0]["Plan"]))


def scans_of(nodes: list[Node], table: str) -> set[str]:
    """The kinds of nodes that read the table, and the indexes they used: `Index Scan job_pkey`."""
    return {
        " ".join(filter(None, (node["Node Type"], node.get("Index Name"))))
        for node in nodes
        if node.get("Relation Name") == table and "Scan" in node["Node Type"]
    }


def pages_read(nodes: list[Node]) -> int:
    """How many pages of 8 kB the whole statement touched."""
    top = nodes[0]
    pages: int = top["Shared Hit Blocks"] + top["Shared Read Blocks"]
    return pages


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for child in node.get("Plans", ()):
        yield from _nodes(child)


def _literal(value: Any) -> str | None:
    if isinstance(value, list):
        return "{" + ",".join(_element(item) for item in value) + "}"
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    return None if value is None else str(value)


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    return json.dumps(_literal(value))
