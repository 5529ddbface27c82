"""Conversations with the database inside a transaction that belongs to somebody else.

Whatever kind of connection the caller has, its transaction is never committed, rolled back or
aborted here. A foreign connection has none of our settings and codecs.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, Union, runtime_checkable

from sqlalchemy import Connection, Executable

from headgate.model.errors import InvalidRequest
from headgate.store.compilation import NAMED, compiler
from headgate.store.enqueueing import Conversation, Row

# Half of SQLAlchemy: whoever has such a connection has loaded it, and nobody else needs it.
if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
    from sqlalchemy.orm import Session as OrmSession

Answer = TypeVar("Answer")


class CursorConnection(Protocol):
    """A connection of psycopg, or the one of Django."""

    def cursor(self) -> Any: ...


SyncConnection: TypeAlias = Union[Connection, "OrmSession", CursorConnection]
"""SQLAlchemy on a driver that blocks, psycopg itself, or `django.db.connection`."""


@runtime_checkable
class DriverConnection(Protocol):
    """A connection of asyncpg, or a proxy of its pool."""

    async def fetch(self, query: str, *args: Any) -> list[Any]: ...

    def is_in_transaction(self) -> bool: ...


AsyncConnectionLike: TypeAlias = Union["AsyncConnection", "AsyncSession", DriverConnection]


async def converse(
    connection: AsyncConnectionLike, conversation: Conversation[Answer], *, schema: str
) -> Answer:
    """Runs the statements of `conversation` in the transaction of `connection`; its answer.

    Raises `InvalidRequest` for a raw connection outside of a transaction, and what the conversation
    raises. What the connection raises passes as it is.
    """
    run = _runner(connection, schema)
    try:
        step = next(conversation)
        while True:
            step = conversation.send(await run(*step))
    except StopIteration as end:
        answer: Answer = end.value
        return answer


def converse_blocking(
    connection: SyncConnection, conversation: Conversation[Answer], *, schema: str
) -> Answer:
    """The same on a connection or session that blocks."""
    run = _blocking_runner(connection, schema)
    try:
        step = next(conversation)
        while True:
            step = conversation.send(run(*step))
    except StopIteration as end:
        answer: Answer = end.value
        return answer


Run = Callable[[Executable, Mapping[str, Any]], Any]


def _runner(connection: AsyncConnectionLike, schema: str) -> Run:
    if not isinstance(connection, DriverConnection):
        orm = connection
        options = {"schema_translate_map": {None: schema}}

        async def execute(statement: Executable, parameters: Mapping[str, Any]) -> Sequence[Row]:
            result = await orm.execute(statement, dict(parameters), execution_options=options)
            return _rows(result)

        return execute
    if not connection.is_in_transaction():
        raise InvalidRequest("the connection is not in a transaction")
    raw = connection
    compile_statement = compiler(schema)

    async def fetch(statement: Executable, parameters: Mapping[str, Any]) -> Sequence[Row]:
        compiled = compile_statement(statement)
        return await raw.fetch(compiled.sql, *compiled.arguments(parameters))

    return fetch


BlockingRun = Callable[[Executable, Mapping[str, Any]], Sequence[Row]]


def _blocking_runner(connection: SyncConnection, schema: str) -> BlockingRun:
    if hasattr(connection, "execution_options") or hasattr(connection, "get_bind"):
        orm: Any = connection
        options = {"schema_translate_map": {None: schema}}

        def execute(statement: Executable, parameters: Mapping[str, Any]) -> Sequence[Row]:
            return _rows(orm.execute(statement, dict(parameters), execution_options=options))

        return execute
    if not _in_transaction(connection):
        raise InvalidRequest("the connection is not in a transaction")
    compile_statement = compiler(schema, NAMED)

    def run(statement: Executable, parameters: Mapping[str, Any]) -> Sequence[Row]:
        compiled = compile_statement(statement)
        with connection.cursor() as cursor:
            cursor.execute(compiled.sql, compiled.named(parameters))
            if cursor.description is None:
                return []
            names = [column[0] for column in cursor.description]
            return [
                row if isinstance(row, Mapping) else dict(zip(names, row, strict=True))
                for row in cursor.fetchall()
            ]

    return run


def _in_transaction(connection: Any) -> bool:
    """Whether several statements are one transaction; a plain connection of psycopg begins one by
    itself.
    """
    if hasattr(connection, "in_atomic_block"):
        return bool(connection.in_atomic_block)
    status = getattr(getattr(connection, "info", None), "transaction_status", None)
    return not getattr(connection, "autocommit", False) or bool(status)


def _rows(result: Any) -> Sequence[Row]:
    return result.mappings().all() if result.returns_rows else []
