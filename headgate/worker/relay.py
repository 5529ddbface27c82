"""Passes the end of a node on to its workflow, so that what follows need not wait for a look."""

import asyncio
import logging
from contextlib import suppress
from typing import Final

from headgate.model.errors import StoreError
from headgate.model.job import Claim
from headgate.model.lifecycle import LIVE
from headgate.model.workflow import WORKFLOW_HEADER
from headgate.store.store import Store

# Nodes of a wide fan-out end together: one look serves all that have ended by then.
_GATHER_S: Final = 0.02

logger = logging.getLogger("headgate.worker")


class WorkflowRelay:
    """Advances workflows whose nodes have ended in this worker, one after the other.

    Whatever is lost here, the coordinator finds at its next look.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._due: dict[str, int] = {}
        self._advancing: asyncio.Task[None] | None = None

    def settled(self, claim: Claim, state: str) -> None:
        """The job went to `state`; its workflow is looked at when that is an end."""
        if not claim.headers or state in LIVE:
            return
        coordinator = claim.headers.get(WORKFLOW_HEADER)
        if coordinator is not None:
            self._due[coordinator] = claim.claimed_at_ms
            if self._advancing is None:
                self._advancing = asyncio.get_running_loop().create_task(self._advance())

    async def close(self) -> None:
        """Leaves the rest to the coordinators."""
        if self._advancing is not None:
            self._advancing.cancel()
            with suppress(asyncio.CancelledError):
                await self._advancing

    async def _advance(self) -> None:
        try:
            while self._due:
                await asyncio.sleep(_GATHER_S)
                coordinator, past_ms = self._due.popitem()
                try:
                    standing = await self._store.workflows.advance(coordinator)
                    if not standing.live:
                        # An instant of the database's clock that is over: the coordinator is due.
                        await self._store.control.reschedule(coordinator, past_ms)
                except StoreError as error:
                    logger.info("workflow of %s is not advanced from here: %s", coordinator, error)
        finally:
            self._advancing = None
