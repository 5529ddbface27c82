"""Reports on their way to the store: gathered, sent in batches, kept until they are answered."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from operator import attrgetter
from typing import Final

from headgate.duties.outage import Backoff, OutageLog
from headgate.model.errors import StoreError, StoreUnavailable
from headgate.model.job import Acknowledgement
from headgate.model.lifecycle import Outcome
from headgate.store.store import Store
from headgate.worker.attempt import Attempt

_BATCH: Final = 500
_OUTAGE_FLOOR_MS: Final = 50
_OUTAGE_CEILING_MS: Final = 5_000
_JOB_ID: Final = attrgetter("claim.job_id")

logger = logging.getLogger("headgate.worker")


class Acknowledgements:
    """Sends what attempts report, a batch as soon as the one before is answered.

    Under load the batches grow by themselves; alone, a report leaves at once. While the store is
    away the reports are kept and their leases stay renewed as far as that is possible; the store
    itself refuses what comes too late.
    """

    def __init__(
        self,
        store: Store,
        *,
        settled: Callable[[Attempt, str | None], None],
        outage: OutageLog,
    ) -> None:
        """`settled` is told when nothing is left to report of an attempt: with the state that the
        job went to, or None when its report did not count.
        """
        self._store = store
        self._settled = settled
        self._outage = outage
        # Attempts that have ended, each with its report.
        self._reports: deque[Attempt] = deque()
        self._arrived = asyncio.Event()
        self._closing = asyncio.Event()
        self._failing = Backoff(_OUTAGE_FLOOR_MS, _OUTAGE_CEILING_MS)
        # Reports that may have been taken although no answer came.
        self._uncertain: set[Attempt] = set()

    def __len__(self) -> int:
        return len(self._reports)

    def put(self, attempt: Attempt) -> None:
        """Hands over an attempt that has a report."""
        self._reports.append(attempt)
        self._arrived.set()

    @property
    def closed(self) -> bool:
        return self._closing.is_set()

    def close(self) -> None:
        """Nothing more is put; `run` returns when all is sent."""
        self._closing.set()
        self._arrived.set()

    async def run(self) -> None:
        """Sends until closed and empty. While the store is away it goes on trying."""
        while self._reports or not self._closing.is_set():
            if not self._reports:
                self._arrived.clear()
                await self._arrived.wait()
                continue
            try:
                # Not by a name: between two batches nothing of the last one is kept.
                await self._send(
                    [self._reports.popleft() for _ in range(min(_BATCH, len(self._reports)))]
                )
            except StoreUnavailable as error:
                self._outage.failed("acknowledgement", error)
                await asyncio.sleep(self._failing.next_ms() / 1000)
            else:
                self._outage.succeeded()
                self._failing.reset()

    async def _send(self, batch: list[Attempt]) -> None:
        """Sends one batch; what is not answered goes back to the front of the queue."""
        # In one order everywhere: a renewal may be updating the same rows.
        batch.sort(key=_JOB_ID)
        answered = False
        try:
            settlements = await self._store.leases.acknowledge(
                [attempt.report for attempt in batch if attempt.report is not None]
            )
            answered = True
        except StoreUnavailable:
            raise
        except StoreError as error:
            answered = True
            await self._send_singly(batch, error)
            return
        finally:
            if not answered:
                self._uncertain.update(batch)
                self._reports.extendleft(batch)
        for attempt, settlement in zip(batch, settlements, strict=True):
            self._settle(attempt, settlement.state)

    async def _send_singly(self, batch: list[Attempt], error: StoreError) -> None:
        """One report of the batch cannot be stored: the others must not suffer for it."""
        if len(batch) > 1:
            for position, attempt in enumerate(batch):
                try:
                    await self._send([attempt])
                except StoreUnavailable:
                    self._reports.extendleft(batch[position + 1 :])
                    raise
            return
        (attempt,) = batch
        job_id, refused = attempt.claim.job_id, attempt.report
        if refused is None or (refused.outcome is Outcome.RETRY and not refused.logs):
            logger.error("the report on job %s is lost: %s", job_id, error)
            self._forget(attempt, None)
            return
        logger.error("the report on job %s was refused: %s", job_id, error)
        attempt.report = Acknowledgement(
            lease=refused.lease,
            outcome=Outcome.RETRY,
            error=f"report refused by the store: {error}",
        )
        await self._send(batch)

    def _settle(self, attempt: Attempt, state: str | None) -> None:
        if state is not None:
            attempt.confirmed = True
        elif attempt in self._uncertain:
            logger.info(
                "job %s: its report was sent twice, the first one counted or the lease is lost",
                attempt.claim.job_id,
            )
        else:
            logger.warning(
                "job %s (%s): the lease is lost, its report does not count",
                attempt.claim.job_id,
                attempt.claim.kind,
            )
        self._forget(attempt, state)

    def _forget(self, attempt: Attempt, state: str | None) -> None:
        if self._uncertain:
            self._uncertain.discard(attempt)
        self._settled(attempt, state)

    async def drain(self, limit_ms: float) -> None:
        """Closes, and sends in place of a `run` that was interrupted, at most for `limit_ms`."""
        self.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_ms / 1000):
                await self.run()
