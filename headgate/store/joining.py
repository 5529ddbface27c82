"""Enqueue inside a transaction that belongs to the caller, on whatever connection it has.

The jobs appear when the caller commits and are gone when it rolls back, together with everything
else the transaction did. It is never committed, rolled back or aborted here: a refusal is an
exception of ours in a transaction that goes on working. Use READ COMMITTED; with a stricter level
PostgreSQL itself aborts a transaction whose unique key was taken by one it cannot see.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, Union, runtime_checkable

from sqlalchemy import Connection, Executable

from headgate.model.envelope import Envelope
from headgate.model.errors import InvalidRequest
from headgate.model.job import Enqueued
from headgate.queries.wakeups import notify, wakeup_channel
from headgate.store.compilation import Compiler
from headgate.store.enqueueing import (
    Batch,
    Conversation,
    Row,
    Written,
    enqueue,
    guarded_insert,
    written,
)

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


async def enqueue_in(
    connection: AsyncConnectionLike,
    envelopes: Sequence[Envelope],
    *,
    schema: str = "public",
    wake: bool = True,
) -> list[Enqueued]:
    """Enqueues the batch in the transaction of `connection`: all of it or nothing.

    `wake` notifies workers at the commit. Raises `InvalidRequest` for a raw connection outside of
    a transaction, and what an enqueue raises: `IdConflict`, `FingerprintQuarantined`,
    `Backpressure`, `DuplicateJob`. What the connection raises passes as it is.
    """
    if not envelopes:
        return []
    batch = Batch.of(envelopes)
    run = _runner(connection, schema)
    conversation = _joined(batch, wakeup_channel(schema) if wake else None)
    try:
        step = next(conversation)
        while True:
            step = conversation.send(await run(*step))
    except StopIteration as end:
        answer: list[Enqueued] = end.value
        return answer


def enqueue_in_sync(
    connection: SyncConnection,
    envelopes: Sequence[Envelope],
    *,
    schema: str = "public",
    wake: bool = True,
) -> list[Enqueued]:
    """The same on a connection or session that blocks."""
    if not envelopes:
        return []
    options = {"schema_translate_map": {None: schema}}
    conversation = _joined(Batch.of(envelopes), wakeup_channel(schema) if wake else None)
    try:
        step = next(conversation)
        while True:
            statement, parameters = step
            result = connection.execute(statement, dict(parameters), execution_options=options)
            step = conversation.send(_rows(result))
    except StopIteration as end:
        answer: list[Enqueued] = end.value
        return answer


def _joined(batch: Batch, channel: str | None) -> Conversation[list[Enqueued]]:
    """An enqueue in somebody's transaction: at once where that is safe, then the wake-up."""
    answer: Written | None = None
    if len(batch.envelopes) == 1:
        # A single row is there or not; a batch could be left in halves, behind no savepoint.
        rows = yield guarded_insert(batch, tolerant=True)
        if rows:
            answer = written(batch, rows)
    if answer is None:
        answer = yield from enqueue(batch)
    if channel is not None and answer.queues:
        yield notify(channel), {"queues": sorted(answer.queues)}
    return answer.jobs


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
