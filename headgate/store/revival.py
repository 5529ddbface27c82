"""Back into the queue: jobs become available again, each unless another one took its unique key."""

from collections.abc import Sequence
from typing import Any, Final

import asyncpg
import msgspec

from headgate.model.errors import StoreUnavailable
from headgate.model.lifecycle import OperatorAction
from headgate.queries.operators import enter_available, key_holders
from headgate.store.database import Row, Session

_ATTEMPTS: Final = 5


class Revival(msgspec.Struct):
    """What became of a list of jobs: the queue of each that is available now, and for each of the
    others the id of the job that holds its key. By row id.
    """

    queues: dict[int, str] = {}
    holders: dict[int, str] = {}


async def make_available(
    session: Session, action: OperatorAction, row_ids: Sequence[int]
) -> Revival:
    """Applies a promotion, a retry or a release to jobs that this transaction has locked, all of
    them in a state from which it is defined.

    Whatever clashes only concerns its own job. Lanes are registered; the queues are to be woken
    after the commit. Raises `StoreUnavailable` when keys kept being taken and given back meanwhile.
    """
    revival = Revival()
    left = list(row_ids)
    for _ in range(_ATTEMPTS):
        if left:
            rows = await _enter(session, action, left)
            revival.queues.update((row["row_id"], row["queue"]) for row in rows)
            left = [row_id for row_id in left if row_id not in revival.queues]
        if not left:
            return revival
        rows = await session.fetch(key_holders(), {"row_id_array": left})
        revival.holders.update((row["row_id"], row["holder"]) for row in rows)
        # Whose holder is gone already may try again.
        left = [row_id for row_id in left if row_id not in revival.holders]
    raise StoreUnavailable(f"{action} kept losing races; try again")


async def _enter(session: Session, action: OperatorAction, row_ids: list[int]) -> Sequence[Row]:
    """The rows that entered; none when a key was taken by a job that nobody could see before."""
    parameters: dict[str, Any] = {"row_id_array": row_ids}
    try:
        return await session.transact(
            lambda inner: inner.fetch(enter_available(action), parameters)
        )
    except asyncpg.UniqueViolationError:
        return ()
