"""Enqueue on our own pool: one round trip where nothing speaks against the batch."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import asyncpg
from sqlalchemy import Executable

from headgate.model.envelope import Envelope
from headgate.model.errors import DuplicateJob, StoreUnavailable
from headgate.model.job import Enqueued, RequestKey
from headgate.store.database import Session, Writer
from headgate.store.enqueueing import (
    Batch,
    Written,
    count,
    enqueue,
    guarded_insert,
    in_one_lane,
    short_insert,
    written,
)
from headgate.store.failures import KeyTaken
from headgate.store.notifier import Notifier

_ATTEMPTS: Final = 5


class Producer:
    """Writes jobs. Every call is atomic: the whole batch is there, or nothing is."""

    def __init__(self, database: Writer, notifier: Notifier) -> None:
        self._database = database
        self._notifier = notifier

    async def enqueue(
        self, envelopes: Sequence[Envelope], *, request: RequestKey | None = None
    ) -> list[Enqueued]:
        """Enqueues the batch and says where each job of it ended, in order.

        An id that exists with the same kind, fingerprint and queue is a replay and succeeds. A
        `request` is for a single job: repeating its key answers with the job it made at first.

        Raises `InvalidRequest` before any connection is taken, then `IdConflict`,
        `FingerprintQuarantined`, `Backpressure` and `DuplicateJob` in this order of precedence,
        and `StoreUnavailable`.
        """
        if not envelopes:
            return []
        batch = Batch.of(envelopes)
        answer = await self._enqueue_quickly(batch, request)
        if answer is None:
            answer = await self._enqueue_slowly(batch, request)
        if answer.queues:
            self._notifier.wake(answer.queues, jobs=len(envelopes))
        return answer.jobs

    async def _enqueue_quickly(self, batch: Batch, request: RequestKey | None) -> Written | None:
        """Tries the statements that write all or nothing; None when something is in the way."""
        try:
            short = short_insert(batch, request)
            if short and await self._insert_in_lane(*short, request):
                return in_one_lane(batch)
            rows = await self._database.fetch(*guarded_insert(batch, request))
        except KeyTaken:
            return None
        return written(batch, rows) if count(rows) == len(batch.envelopes) else None

    async def _insert_in_lane(
        self, statement: Executable, parameters: Mapping[str, Any], request: RequestKey | None
    ) -> int:
        if request is None:
            return await self._database.write(statement, parameters)
        return count(await self._database.fetch(statement, parameters))

    async def _enqueue_slowly(self, batch: Batch, request: RequestKey | None) -> Written:
        for _ in range(_ATTEMPTS):
            try:
                answer = await self._database.transact(
                    lambda session: _converse(session, batch, request)
                )
            except (KeyTaken, asyncpg.UniqueViolationError):
                # The same request won the race; the next look finds its job.
                continue
            if isinstance(answer, DuplicateJob):
                raise answer
            return answer
        raise StoreUnavailable("enqueue kept losing races; try again")


class JoinedProducer(Producer):
    """Enqueues as a part of an open transaction, which goes on working after a refusal."""

    async def _enqueue_quickly(self, batch: Batch, request: RequestKey | None) -> Written | None:
        # What clashes would abort the transaction; the conversation looks before it writes.
        return None


async def _converse(
    session: Session, batch: Batch, request: RequestKey | None
) -> Written | DuplicateJob:
    conversation = enqueue(batch, request)
    try:
        step = next(conversation)
        while True:
            step = conversation.send(await session.fetch(*step))
    except StopIteration as end:
        answer: Written = end.value
        return answer
    except DuplicateJob as duplicate:
        if duplicate.replaced:
            # Returned, not raised: the change of the holder is to be committed.
            return duplicate
        raise
