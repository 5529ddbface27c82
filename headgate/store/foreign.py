"""Conversations with the database inside a transaction that belongs to somebody else.

Whatever kind of connection the caller has, its transaction is never committed, rolled back or
aborted here. A foreign connection has none of our settings and codecs.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, Union, runtime_checkable

from sqlalchemy import Connection, Executable

from headgate.model.errors import InvalidRequest
from headgate.store.compilation import Compiler
from headgate.store.enqueueing import Conversation, Row

# Half of SQLAlchemy: whoever has such a connection has loaded it, and nobody else needs it.
if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
    from sqlalchemy.orm import Session as OrmSession

Answer = TypeVar("Answer")

SyncConnection: TypeAlias = Union[Connection, "OrmSession"]
"""SQLAlchemy on a driver that blocks, such as psycopg."""


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
    options = {"schema_translate_map": {None: schema}}
    try:
        step = next(conversation)
        while True:
            statement, parameters = step
            result = connection.execute(statement, dict(parameters), execution_options=options)
            step = conversation.send(_rows(result))
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


@lru_cache(maxsize=16)
def compiler(schema: str) -> Compiler:
    return Compiler(schema)


def _rows(result: Any) -> Sequence[Row]:
    return result.mappings().all() if result.returns_rows else []
