"""The lease of an attempt, as its handler meets it: until it is lost, given back or used up."""

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import TypeVar

from headgate.model.errors import InvalidRequest, LeaseRejected
from headgate.model.job import Lease
from headgate.store.store import Store
from headgate.worker.outcomes import LeaseLost

Answer = TypeVar("Answer")


class Holding(Enum):
    """What an attempt has of its lease."""

    HELD = "held"
    LOST = "lost"
    RELEASED = "released"
    """The handler gave it back and goes on without it."""
    COMMITTING = "committing"
    """The attempt is ended in a transaction that the handler has yet to commit."""
    CONCLUDED = "concluded"
    """The attempt is ended in a transaction that is committed."""
    ENDED = "ended"
    """The attempt is over, and its report on the way."""


class Hold:
    """What may be written under one lease. `gone` is told when it is not the attempt's any more."""

    __slots__ = ("_gone", "lease", "state", "stopped", "store")

    def __init__(self, store: Store, lease: Lease, gone: Callable[[Holding], None]) -> None:
        self.store = store
        self.lease = lease
        self.state = Holding.HELD
        # The attempt was told to end, though the lease may be its own for a little longer.
        self.stopped = False
        self._gone = gone

    def check(self) -> None:
        """Raises `LeaseLost` when the job is not this attempt's any more, and `InvalidRequest`
        when it has been ended.
        """
        if self.state in (Holding.COMMITTING, Holding.CONCLUDED):
            raise InvalidRequest("the job was ended by `once`: nothing can follow")
        if self.state is not Holding.HELD:
            raise LeaseLost(self.lease.job_id)

    async def write(self, writing: Callable[[], Awaitable[Answer]]) -> Answer:
        """Does what needs the lease. Raises what `check` does, and `LeaseLost` when the store says
        that it is lost.
        """
        self.check()
        try:
            return await writing()
        except LeaseRejected:
            raise self.lost() from None

    def lost(self) -> LeaseLost:
        """The lease is lost; what to raise for it."""
        self.leave(Holding.LOST)
        return LeaseLost(self.lease.job_id)

    def leave(self, state: Holding) -> None:
        """The attempt has no lease any more, or soon will have none."""
        if self.state is not state:
            self.state = state
            self._gone(state)
