"""What a handler does exactly once: in one transaction with the end of its job, or of a step.

The transaction is one of ours, or one that the handler has open on a connection of its own. Then it
is the handler's to commit, and what follows makes sure that it was.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from headgate.model.errors import LeaseRejected, StoreError
from headgate.model.job import Acknowledgement
from headgate.store.effects import Effect, claim, complete, complete_step, job_key, step_key
from headgate.store.foreign import (
    AsyncConnectionLike,
    DriverConnection,
    SyncConnection,
    converse,
    converse_blocking,
)
from headgate.worker.hold import Hold, Holding
from headgate.worker.steps import StepTrail, call

Success = Callable[[Any], Acknowledgement]
"""The report of success, with what the effect has returned as the result of the job."""

Ending = Callable[[Any], Effect]


class AttemptEffects:
    """The effects of one attempt."""

    __slots__ = ("_hold", "_raised", "_success")

    def __init__(self, hold: Hold, success: Success) -> None:
        self._hold = hold
        self._success = success
        # What the work of the handler has raised, as it has raised it.
        self._raised: BaseException | None = None

    @property
    def job_key(self) -> str:
        return job_key(self._hold.lease.job_id)

    async def once(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        connection: AsyncConnectionLike | None,
    ) -> bool:
        """Ends the job together with what `function` does; false when that was done before."""
        self._hold.check()
        ending = self._end_job
        if connection is not None:
            first = await self._have(connection, self.job_key, ending, function, arguments)
            self._hold.leave(Holding.COMMITTING)
            return first
        async with self._transaction() as own:
            first = await self._have(own, self.job_key, ending, function, arguments)
            # From the commit on the lease is gone, and nobody must take that for a loss.
            self._hold.leave(Holding.COMMITTING)
        self._hold.leave(Holding.CONCLUDED)
        return first

    async def step_once(
        self,
        trail: StepTrail,
        name: str,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        connection: AsyncConnectionLike | None,
    ) -> bool:
        """Ends the step together with what `function` does; false when that was done before."""
        if not await trail.enter(name):
            return False
        key = step_key(self._hold.lease.job_id, name)
        ending = self._end_step(trail)
        try:
            if connection is not None:
                first = await self._have(connection, key, ending, function, arguments)
            else:
                async with self._transaction() as own:
                    first = await self._have(own, key, ending, function, arguments)
        except BaseException:
            trail.fail()
            raise
        trail.left(unproven=None if connection is None else key)
        return first

    def once_blocking(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        connection: SyncConnection,
    ) -> bool:
        """`once` in a transaction of a connection that blocks."""
        self._hold.check()
        ending = self._end_job
        first = self._have_blocking(connection, self.job_key, ending, function, arguments)
        self._hold.leave(Holding.COMMITTING)
        return first

    def step_once_blocking(
        self,
        trail: StepTrail,
        name: str,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        connection: SyncConnection,
    ) -> bool:
        """`step_once` in a transaction of a connection that blocks, for a step that is entered."""
        key = step_key(self._hold.lease.job_id, name)
        try:
            first = self._have_blocking(connection, key, self._end_step(trail), function, arguments)
        except BaseException:
            trail.fail()
            raise
        trail.left(unproven=key)
        return first

    async def concluded(self) -> bool:
        """Whether the job was ended in a transaction that is committed. Raises `StoreError`."""
        if self._hold.state is Holding.COMMITTING and await self._hold.store.effects.happened(
            self.job_key
        ):
            self._hold.leave(Holding.CONCLUDED)
        return self._hold.state is Holding.CONCLUDED

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[DriverConnection]:
        """A transaction of ours; what the handler's own statements raise passes as it is."""
        try:
            async with self._hold.store.effects.transaction() as own:
                yield own
        except StoreError as error:
            if self._raised is not None and error.__cause__ is self._raised:
                raise self._raised from None
            raise

    def _end_job(self, returned: Any) -> Effect:
        return complete(self._success(returned))

    def _end_step(self, trail: StepTrail) -> Ending:
        return lambda returned: complete_step(self._hold.lease, trail.done())

    async def _have(
        self,
        connection: AsyncConnectionLike,
        key: str,
        ending: Ending,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
    ) -> bool:
        schema = self._hold.store.effects.schema
        first = await converse(connection, claim(key), schema=schema)
        try:
            returned = await call(function, connection, *arguments) if first else None
        except BaseException as raised:
            self._raised = raised
            raise
        try:
            await converse(connection, ending(returned), schema=schema)
        except LeaseRejected:
            raise self._hold.lost() from None
        return first

    def _have_blocking(
        self,
        connection: SyncConnection,
        key: str,
        ending: Ending,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
    ) -> bool:
        schema = self._hold.store.effects.schema
        first = converse_blocking(connection, claim(key), schema=schema)
        returned = function(connection, *arguments) if first else None
        try:
            converse_blocking(connection, ending(returned), schema=schema)
        except LeaseRejected:
            raise self._hold.lost() from None
        return first
