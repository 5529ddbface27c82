"""Quarantine: which fingerprints are held back, and how they are let go."""

from collections.abc import Sequence
from typing import Final

import msgspec

from headgate.model.errors import DuplicateJob, InvalidRequest, NotFound
from headgate.model.lifecycle import OperatorAction
from headgate.model.limits import check_characters
from headgate.model.page import Page, PageRequest
from headgate.model.quarantine import QuarantinedFingerprint, Release
from headgate.queries.quarantine import (
    lock_parked,
    park_waiting,
    quarantined_fingerprints,
    release_entry,
    waiting_jobs,
)
from headgate.store.database import Executor, Row, Session
from headgate.store.isolation import Isolation
from headgate.store.notifier import Notifier
from headgate.store.revival import make_available

BATCH: Final = 1_000
"""How many jobs one transaction of a release sets free."""


class Quarantine:
    """The quarantine as operators and duties see it. All methods raise `StoreUnavailable`."""

    def __init__(self, database: Executor, notifier: Notifier) -> None:
        self._database = database
        self._notifier = notifier
        # Behind which fingerprint the next sweep begins; losing it costs one round.
        self._swept_up_to = ""
        self._parking = Isolation[int]("quarantine")

    async def entries(self, request: PageRequest) -> Page[QuarantinedFingerprint]:
        """A page of the fingerprints that are held back, newest first. Raises `InvalidRequest`."""
        rows = await self._database.fetch(quarantined_fingerprints(), request.parameters())
        return request.page([QuarantinedFingerprint(**row) for row in rows])

    async def release(self, fingerprint: str) -> Release:
        """Lets a fingerprint go: new jobs of it may enter, parked ones become available with their
        crashes forgiven.

        In batches, each a transaction: an outage in the middle leaves the rest parked, and asking
        again frees it. A job whose unique key was taken meanwhile stays parked and is counted;
        it is freed by a later call. Raises `NotFound` when there is neither an entry nor a parked
        job of it, and `DuplicateJob` when it frees nothing as every job of it clashes: then nothing
        was changed.
        """
        check_characters("fingerprint", fingerprint)
        released = clashes = 0
        after_id: int | None = None
        while True:
            batch = await self._release_batch(fingerprint, after_id)
            self._notifier.wake(batch.queues)
            released += batch.released
            clashes += batch.clashes
            if batch.last_id is None:
                return Release(released=released, clashes=clashes)
            after_id = batch.last_id

    async def sweep(self, limit: int) -> int:
        """Parks up to `limit` waiting jobs of the next quarantined fingerprints; how many.

        They are kept from running with or without it: this makes visible what they wait for. A row
        that cannot be written is passed over.
        """
        if limit < 1:
            raise InvalidRequest("limit must be >= 1")
        [waiting] = await self._database.fetch(
            waiting_jobs(),
            {
                "after_fingerprint": self._swept_up_to,
                "batch_size": limit,
                "passed_over": self._parking.passed_over,
            },
        )
        row_ids: list[int] = waiting["row_ids"]

        async def some(part: Sequence[int]) -> list[Row]:
            return await self._database.fetch(park_waiting(), {"row_id_array": list(part)})

        parked = await self._parking.each(row_ids, some)
        if len(parked) < limit:
            self._swept_up_to = waiting["resume_after"] or ""
        return len(parked)

    async def _release_batch(self, fingerprint: str, after_id: int | None) -> "_ReleasedBatch":
        """Frees the parked jobs behind `after_id`; None is the beginning and takes the entry."""
        name = {"wanted_fingerprint": fingerprint}

        async def work(session: Session) -> _ReleasedBatch:
            known = after_id is not None or await session.fetch(release_entry(), name)
            rows = await session.fetch(
                lock_parked(), {**name, "after_id": after_id or 0, "batch_size": BATCH}
            )
            if not known and not rows:
                raise NotFound(f"fingerprint {fingerprint} is not quarantined")
            revival = await make_available(
                session, OperatorAction.RELEASE, [row["id"] for row in rows]
            )
            more = len(rows) == BATCH
            if after_id is None and not more and revival.holders and not revival.queues:
                raise DuplicateJob(next(iter(revival.holders.values())))
            return _ReleasedBatch(
                released=len(revival.queues),
                clashes=len(revival.holders),
                queues=set(revival.queues.values()),
                last_id=rows[-1]["id"] if more else None,
            )

        return await self._database.transact(work)


class _ReleasedBatch(msgspec.Struct, kw_only=True):
    """`last_id` is where the next batch goes on; None when this was the last."""

    released: int
    clashes: int
    queues: set[str]
    last_id: int | None
