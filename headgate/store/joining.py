"""Enqueue inside a transaction that belongs to the caller, on whatever connection it has.

The jobs appear when the caller commits and are gone when it rolls back, together with everything
else the transaction did. A refusal is an exception of ours in a transaction that goes on working.
Use READ COMMITTED; with a stricter level PostgreSQL itself aborts a transaction whose unique key
was taken by one it cannot see.
"""

from collections.abc import Sequence

from headgate.model.envelope import Envelope
from headgate.model.job import Enqueued
from headgate.queries.wakeups import notify, wakeup_channel
from headgate.store.enqueueing import (
    Batch,
    Conversation,
    Written,
    enqueue,
    guarded_insert,
    written,
)
from headgate.store.foreign import (
    AsyncConnectionLike,
    SyncConnection,
    converse,
    converse_blocking,
)


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
    return await converse(connection, _conversation(envelopes, schema, wake), schema=schema)


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
    return converse_blocking(connection, _conversation(envelopes, schema, wake), schema=schema)


def _conversation(
    envelopes: Sequence[Envelope], schema: str, wake: bool
) -> Conversation[list[Enqueued]]:
    return _joined(Batch.of(envelopes), wakeup_channel(schema) if wake else None)


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
