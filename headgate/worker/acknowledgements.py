"""Reports on their way to the store: gathered, sent in batches, kept until they are answered."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from operator import itemgetter
from typing import Final, NamedTuple

from headgate.duties.outage import Backoff, OutageLog
from headgate.model.errors import StoreError, StoreUnavailable
from headgate.model.job import Acknowledgement, Claim
from headgate.model.lifecycle import Outcome
from headgate.store.store import Store
from headgate.worker.attempt import Attempt

_BATCH: Final = 500
_OUTAGE_FLOOR_MS: Final = 50
_OUTAGE_CEILING_MS: Final = 5_000

logger = logging.getLogger("headgate.worker")


class _Report(NamedTuple):
    job_id: str
    attempt: Attempt
    acknowledgement: Acknowledgement


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
        settled: Callable[[Attempt], None],
        taken: Callable[[Claim, Acknowledgement, str], None],
        outage: OutageLog,
    ) -> None:
        """`settled` is told when nothing is left to report of an attempt; `taken`, before, when the
        store took the report and the job went to a state with it.
        """
        self._store = store
        self._settled = settled
        self._taken = taken
        self._outage = outage
        self._reports: deque[_Report] = deque()
        self._arrived = asyncio.Event()
        self._closing = asyncio.Event()
        self._failing = Backoff(_OUTAGE_FLOOR_MS, _OUTAGE_CEILING_MS)
        # Reports that may have been taken although no answer came.
        self._uncertain: set[Attempt] = set()

    def __len__(self) -> int:
        return len(self._reports)

    def put(self, attempt: Attempt, acknowledgement: Acknowledgement) -> None:
        """Hands over the report of an attempt."""
        self._reports.append(_Report(attempt.claim.job_id, attempt, acknowledgement))
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
            batch = [self._reports.popleft() for _ in range(min(_BATCH, len(self._reports)))]
            try:
                await self._send(batch)
            except StoreUnavailable as error:
                self._outage.failed("acknowledgement", error)
                await asyncio.sleep(self._failing.next_ms() / 1000)
            else:
                self._outage.succeeded()
                self._failing.reset()

    async def _send(self, batch: list[_Report]) -> None:
        """Sends one batch; what is not answered goes back to the front of the queue."""
        # In one order everywhere: a renewal may be updating the same rows.
        batch.sort(key=itemgetter(0))
        answered = False
        try:
            settlements = await self._store.leases.acknowledge(
                [report.acknowledgement for report in batch]
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
                self._uncertain.update(report.attempt for report in batch)
                self._reports.extendleft(batch)
        for report, settlement in zip(batch, settlements, strict=True):
            self._settle(report, settlement.state)

    async def _send_singly(self, batch: list[_Report], error: StoreError) -> None:
        """One report of the batch cannot be stored: the others must not suffer for it."""
        if len(batch) > 1:
            for position, report in enumerate(batch):
                try:
                    await self._send([report])
                except StoreUnavailable:
                    self._reports.extendleft(batch[position + 1 :])
                    raise
            return
        (report,) = batch
        refused = report.acknowledgement
        if refused.outcome is Outcome.RETRY and not refused.logs:
            logger.error("the report on job %s is lost: %s", report.job_id, error)
            self._forget(report)
            return
        logger.error("the report on job %s was refused: %s", report.job_id, error)
        failure = Acknowledgement(
            lease=refused.lease,
            outcome=Outcome.RETRY,
            error=f"report refused by the store: {error}",
        )
        await self._send([report._replace(acknowledgement=failure)])

    def _settle(self, report: _Report, state: str | None) -> None:
        if state is not None:
            report.attempt.confirmed = True
            self._taken(report.attempt.claim, report.acknowledgement, state)
        else:
            if report.attempt in self._uncertain:
                logger.info(
                    "job %s: its report was sent twice, the first one counted or the lease is lost",
                    report.job_id,
                )
            else:
                logger.warning(
                    "job %s (%s): the lease is lost, its report does not count",
                    report.job_id,
                    report.attempt.claim.kind,
                )
        self._forget(report)

    def _forget(self, report: _Report) -> None:
        self._uncertain.discard(report.attempt)
        self._settled(report.attempt)

    async def drain(self, limit_ms: float) -> None:
        """Closes, and sends in place of a `run` that was interrupted, at most for `limit_ms`."""
        self.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_ms / 1000):
                await self.run()
