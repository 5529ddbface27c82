"""Tells the application of jobs that are given up, once the store has taken the report."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from headgate.client.failures import Death, DeathHandler, DeathReason
from headgate.model.job import Acknowledgement, Claim
from headgate.model.lifecycle import Outcome, State
from headgate.worker.steps import call
from headgate.worker.verdicts import DEADLINE_EXCEEDED

_REASONS: Final = {
    Outcome.RETRY: DeathReason.ATTEMPTS_EXHAUSTED,
    Outcome.SKIP: DeathReason.SKIPPED,
}

logger = logging.getLogger("headgate.worker")


class Deaths:
    """The death handlers of an application, called one after the other for each job."""

    def __init__(self, handlers: Sequence[DeathHandler]) -> None:
        self.handlers = handlers
        self._telling: set[asyncio.Task[None]] = set()

    def settled(self, claim: Claim, report: Acknowledgement, state: str) -> None:
        """The job went to `state` with this report; its death is told when that is one."""
        reason = _REASONS.get(report.outcome) if state == State.ARCHIVED else None
        if reason is None or not self.handlers:
            return
        if report.outcome is Outcome.SKIP and report.error == DEADLINE_EXCEEDED:
            reason = DeathReason.DEADLINE_EXCEEDED
        death = Death(
            job_id=claim.job_id,
            kind=claim.kind,
            queue=claim.queue,
            payload=claim.payload,
            schema_version=claim.schema_version,
            headers=claim.headers,
            attempt=claim.attempt + (report.outcome is Outcome.RETRY),
            reason=reason,
            error=report.error or "",
        )
        task = asyncio.get_running_loop().create_task(self._tell(death))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def finish(self, limit_ms: int) -> None:
        """Waits for handlers that are being told, within the limit."""
        if self._telling:
            await asyncio.wait(self._telling, timeout=limit_ms / 1000)

    async def _tell(self, death: Death) -> None:
        for handler in self.handlers:
            try:
                await call(handler, death)
            except Exception:
                logger.exception("a death handler failed for job %s", death.job_id)
