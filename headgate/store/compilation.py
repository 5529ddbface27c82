"""Statements compiled once: from an expression to the text and the order of its parameters.

Compiling costs more than running, so a statement is compiled the first time it is used for a
schema and kept. The functions in `headgate.queries` are cached and hand out the same expression
again for the same variant, which makes its identity the key.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import Executable
from sqlalchemy.dialects.postgresql import asyncpg, psycopg
from sqlalchemy.engine import Dialect
from sqlalchemy.sql.compiler import SQLCompiler

NUMBERED: Final[Dialect] = asyncpg.dialect()  # type: ignore[no-untyped-call]  # as its author left it
"""Parameters as asyncpg wants them: `$1`, in their order."""

NAMED: Final[Dialect] = psycopg.dialect()  # type: ignore[no-untyped-call]  # as its author left it
"""Parameters as psycopg wants them: `%(name)s`, by their names."""


class Compiled:
    """The text of a statement for the driver, and how to order named parameters for it."""

    __slots__ = ("_defaults", "_names", "sql", "statement")

    def __init__(self, statement: Executable, schema: str, dialect: Dialect = NUMBERED) -> None:
        compiled = statement.compile(  # type: ignore[attr-defined]  # on ClauseElement, not on the role
            dialect=dialect,
            schema_translate_map={None: schema},
            render_schema_translate=True,
        )
        # Keeps the expression alive: its identity is the key of the cache.
        self.statement = statement
        self.sql = compiled.string
        # DDL has no parameters.
        asks = isinstance(compiled, SQLCompiler)
        self._names = tuple(compiled.positiontup or ()) if asks else ()
        self._defaults = (
            {name: value for name, value in compiled.params.items() if value is not None}
            if asks
            else {}
        )

    def arguments(self, parameters: Mapping[str, Any]) -> list[Any]:
        """The parameters in the order of the text. Raises KeyError for one that is missing."""
        defaults = self._defaults
        return [parameters[name] if name in parameters else defaults[name] for name in self._names]

    def named(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters by their names, fit for a driver that writes them into the text."""
        return {
            name: _literal(value) for name, value in (*self._defaults.items(), *parameters.items())
        }


def _literal(value: Any) -> Any:
    if isinstance(value, tuple):
        # An array is a list to every driver.
        return list(value)
    if isinstance(value, int) and value < 0:
        # `-1::integer` is the negative of a cast, which the smallest integer does not survive.
        return str(value)
    return value


class Compiler:
    """Compiles for one schema and remembers; `compiler` gives the one to use."""

    def __init__(self, schema: str, dialect: Dialect = NUMBERED) -> None:
        self._schema = schema
        self._dialect = dialect
        self._known: dict[int, Compiled] = {}

    def __call__(self, statement: Executable) -> Compiled:
        known = self._known.get(id(statement))
        if known is None:
            known = self._known[id(statement)] = Compiled(statement, self._schema, self._dialect)
        return known


@lru_cache(maxsize=16)
def compiler(schema: str, dialect: Dialect = NUMBERED) -> Compiler:
    """The compiler of this process for `schema`: whoever uses it profits from what is known."""
    return Compiler(schema, dialect)
