"""Lanes: taking drained ones out of the registry, and setting right what somebody forgot."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

from headgate.model.errors import InvalidRequest
from headgate.queries.gate.prune import delete_lanes, lock_lanes
from headgate.queries.lane_repair import find_drained, register_forgotten
from headgate.queries.lanes import LANE
from headgate.store.database import Database, Row, Session

LaneKey: TypeAlias = tuple[str, str, int, str, str]

_FIRST: Final[LaneKey] = ("", "", 0, "", "")
_LEAST_HASH: Final = -(2**63)


class Lanes:
    """The repair of the registry. Any number of processes may run it at once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # Where the next look goes on; losing it costs one round.
        self._waiting_up_to = _LEAST_HASH
        self._registered_up_to = _FIRST

    async def register_forgotten(self, limit: int) -> tuple[int, int]:
        """Looks at the next `limit` lanes with available jobs and registers those that nobody has:
        (examined, registered). Fewer than `limit` examined end a round. Raises `StoreUnavailable`.
        """
        _check(limit)
        parameters = {"after_hash": self._waiting_up_to, "batch_size": limit}
        [row] = await self._database.fetch(register_forgotten(), parameters)
        examined: int = row["examined"]
        self._waiting_up_to = row["hash"] if examined == limit else _LEAST_HASH
        return examined, row["registered"]

    async def prune_drained(self, limit: int) -> tuple[int, int]:
        """Looks at the next `limit` entries of the registry and removes those without an available
        job, as the gate does with what it meets; the entries of a worker that is gone, or of a
        queue that nobody polls, it never meets: (examined, found). Raises `StoreUnavailable`.
        """
        _check(limit)
        place = zip(LANE, self._registered_up_to, strict=True)
        parameters = {f"after_{name}": value for name, value in place}
        rows = await self._database.fetch(find_drained(), {**parameters, "batch_size": limit})
        self._registered_up_to = lane_key(rows[-1]) if len(rows) == limit else _FIRST
        drained = [lane_key(row) for row in rows if row["drained"]]
        if drained:
            await prune(self._database, drained)
        return len(rows), len(drained)


async def prune(database: Database, lanes: Sequence[LaneKey]) -> None:
    """Removes those of the lanes that have no available job and that no producer holds."""

    async def work(session: Session) -> None:
        locked = await session.fetch(lock_lanes(), _lanes(lanes))
        if locked:
            await session.fetch(delete_lanes(), _lanes(tuple(row) for row in locked))

    await database.transact(work)


def lane_key(row: Row) -> LaneKey:
    queue, sticky_worker, priority, partition_key, rate_class = (row[name] for name in LANE)
    return queue, sticky_worker, priority, partition_key, rate_class


def _check(limit: int) -> None:
    if limit < 1:
        raise InvalidRequest("limit must be >= 1")


def _lanes(lanes: Iterable[LaneKey]) -> dict[str, Any]:
    columns = zip(*lanes, strict=True)
    return {f"drained_{name}_array": column for name, column in zip(LANE, columns, strict=True)}
