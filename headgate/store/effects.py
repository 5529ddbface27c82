"""Effects that happen once: what an attempt does in a transaction that also ends it, or its step.

Each part is a conversation, so that it runs in a transaction of ours and in one that belongs to a
caller alike. First the key of the effect is taken; when it is new, the caller does its work; last
comes the end, which holds the row of the job until the commit. A lease that is lost by then is
`LeaseRejected`, and whoever lets that pass rolls back work, key and end together.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from headgate.model.artifacts import Steps
from headgate.model.errors import LeaseRejected
from headgate.model.job import Acknowledgement, Lease
from headgate.model.lifecycle import Outcome
from headgate.queries.charges import settle_charges
from headgate.queries.effects import claim_effect, find_effect
from headgate.store.artifacts import checkpoint_statement
from headgate.store.database import Database
from headgate.store.enqueueing import Conversation
from headgate.store.foreign import DriverConnection
from headgate.store.leases import charge_parameters, judge, success_statement

Effect = Conversation[bool]


class Effects:
    """The transactions of ours that effects run in."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def schema(self) -> str:
        return self._database.settings.schema

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[DriverConnection]:
        """A transaction on a connection with ordinary planner settings, for a caller's statements.

        It commits at the end, unless an exception passes. Raises `StoreError`.
        """
        async with self._database.transaction() as session:
            yield session.connection

    async def happened(self, key: str) -> bool:
        """Whether a transaction that has had this effect is committed. Raises `StoreError`."""
        return bool(await self._database.fetch(find_effect(), {"effect_key": key}))


def job_key(job_id: str) -> str:
    """The key of the effect that ends a job. It has no `/`, which divides a job from its steps."""
    return job_id.replace("%", "%25").replace("/", "%2F")


def step_key(job_id: str, step: str) -> str:
    """The key of the effect that ends a step."""
    return f"{job_key(job_id)}/{step}"


def claim(key: str) -> Effect:
    """Takes the key; false when an earlier delivery has had the effect."""
    rows = yield claim_effect(), {"effect_key": key}
    return bool(rows)


def complete(report: Acknowledgement) -> Effect:
    """Ends the attempt in the success that is reported. Raises `LeaseRejected`, and
    `InvalidRequest` for a result that cannot be stored.
    """
    judge(report)
    assert report.outcome is Outcome.SUCCESS
    if report.actual_weight is not None:
        yield settle_charges(), charge_parameters([report])
    yield from _fenced(report.lease, *success_statement([report]))
    return True


def complete_step(lease: Lease, steps: Steps) -> Effect:
    """Writes down that a step is done. Raises `LeaseRejected`."""
    yield from _fenced(lease, *checkpoint_statement(lease, steps))
    return True


def _fenced(lease: Lease, statement: Any, parameters: Any) -> Conversation[None]:
    rows = yield statement, parameters
    if not rows:
        raise LeaseRejected(lease.job_id)
