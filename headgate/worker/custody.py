"""What is a worker's own, from the claim to the settled report, and how it can be lost before."""

import logging
from collections.abc import Callable, Sequence

from headgate.model.job import Claim, Lease
from headgate.store.store import Store
from headgate.worker.acknowledgements import Acknowledgements
from headgate.worker.attempt import Attempt
from headgate.worker.places import HandlerPlaces
from headgate.worker.slots import Slots
from headgate.worker.stop import Stop
from headgate.worker.workbench import Workbench

logger = logging.getLogger("headgate.worker")


class Custody:
    """Turns claims into attempts and sees each of them to its end."""

    def __init__(
        self,
        store: Store,
        *,
        worker_id: str,
        places: HandlerPlaces,
        lease_ms: int,
        slots: Slots,
        acknowledgements: Acknowledgements,
        unreported: Callable[[Attempt], None],
    ) -> None:
        """`unreported` is told of attempts that end without a report."""
        self._unreported = unreported
        self._lease_ms = lease_ms
        self._slots = slots
        self._acknowledgements = acknowledgements
        self._bench = Workbench(
            worker_id=worker_id,
            store=store,
            places=places,
            lost=self._lose,
            settled=self._slots.settled,
            ended=self._ended,
        )

    def take(self, claims: Sequence[Claim]) -> None:
        """Begins what was admitted."""
        attempts = [Attempt(claim, self._bench, self._lease_ms) for claim in claims]
        for replaced in self._slots.take(attempts):
            self._lose(replaced)

    def lost(self, lease: Lease) -> None:
        """The store says that this lease is lost. It may speak of an attempt before this one."""
        attempt = self._slots.held.get(lease.job_id)
        if attempt is not None and attempt.lease == lease:
            self._lose(attempt)

    def _lose(self, attempt: Attempt) -> None:
        if attempt.ended or attempt.concluding:
            # Its report is on the way, and the answer to that will say the same; or there is none,
            # since it has ended the job in a transaction of its own.
            return
        logger.warning(
            "job %s (%s): the lease is lost; stopping", attempt.claim.job_id, attempt.claim.kind
        )
        # Nothing that is not ours any more may be renewed or counted.
        self._slots.settled(attempt)
        if attempt.started:
            attempt.stop(Stop.LEASE_LOST)
        else:
            attempt.abandon(Stop.LEASE_LOST)

    def _ended(self, attempt: Attempt) -> None:
        if attempt.report is None:
            self._unreported(attempt)
        else:
            self._acknowledgements.put(attempt)
        self._slots.ended(attempt)
