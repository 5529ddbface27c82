"""Counting again: the counts of queues and partitions compared with the jobs that there are."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from headgate.model.lifecycle import LIVE, State
from headgate.queries.ledger import drop_empty_counts, drop_empty_queue_counts
from headgate.queries.recount import (
    WINDOW,
    correct_partitions,
    correct_queues,
    count_window,
    lock_recount,
    partition_counts,
    queue_counts,
    unfolded_counts,
)
from headgate.store.database import Database, Row, Session
from headgate.store.upkeep import Upkeep

_BATCH: Final = 1_000
_FOLD: Final = 5_000

QueueKey = tuple[str, str]
PartitionKey = tuple[str, str, str]


class Recounted(msgspec.Struct, frozen=True):
    """How many jobs were counted, and how many counts were wrong."""

    jobs: int
    queues: int
    partitions: int


class Recount:
    """Sets the counts right after a restore, or after anything else that went around the triggers.

    Exact while everything goes on: jobs are enqueued, admitted, finished and folded meanwhile.
    """

    def __init__(self, database: Database, upkeep: Upkeep) -> None:
        self._database = database
        self._upkeep = upkeep

    async def run(self) -> Recounted:
        """Counts all jobs, window by window in one snapshot, and adds to the counts what they miss.

        Two at once do one after the other. The snapshot lasts as long as the counting, and keeps
        what was deleted meanwhile from being vacuumed. Raises `StoreUnavailable`.
        """
        while await self._upkeep.fold_ledger(_FOLD) == _FOLD:
            pass
        # The next one must see what this one has added, so it has to wait before its snapshot.
        async with self._database.transaction() as guard:
            await guard.fetch(lock_recount())
            async with self._database.transaction(frozen=True) as snapshot:
                jobs, queues, partitions = await _compare(snapshot)
            # Each is a transaction, and goes by the order of its keys: so it meets no fold halfway.
            for key, n in _batches(queues):
                await self._database.fetch(correct_queues(), _columns(("queue", "state"), key, n))
            for key, n in _batches(partitions):
                names = ("queue", "partition_key", "state")
                await self._database.fetch(correct_partitions(), _columns(names, key, n))
        for key, _ in _batches(queues):
            queue_array, _ = zip(*key, strict=True)
            await self._database.fetch(drop_empty_queue_counts(), {"queue_array": queue_array})
        for key, _ in _batches(partitions):
            queue_array, partition_array, _ = zip(*key, strict=True)
            await self._database.fetch(
                drop_empty_counts(),
                {"queue_array": queue_array, "partition_array": partition_array},
            )
        return Recounted(jobs, len(queues), len(partitions))


async def _compare(snapshot: Session) -> tuple[int, Counter[QueueKey], Counter[PartitionKey]]:
    """The number of jobs, and what is missing in the counts of queues and of partitions."""
    jobs = 0
    queues: Counter[QueueKey] = Counter()
    partitions: Counter[PartitionKey] = Counter()

    def add(rows: Iterable[Row], sign: int) -> None:
        for row in rows:
            queues[row["queue"], row["state"]] += sign * row["n"]
            if State(row["state"]) in LIVE:
                partitions[row["queue"], row["partition_key"], row["state"]] += sign * row["n"]

    after_id = 0
    while rows := await snapshot.fetch(count_window(), {"after_id": after_id}):
        add(rows, 1)
        jobs += sum(row["n"] for row in rows)
        after_id = max(row["last_id"] for row in rows)
    add(await snapshot.fetch(unfolded_counts()), -1)
    for row in await snapshot.fetch(queue_counts()):
        queues[row["queue"], row["state"]] -= row["n"]
    place: PartitionKey = ("", "", State.PENDING.value)
    while True:
        names = ("after_queue", "after_partition_key", "after_state")
        page = await snapshot.fetch(partition_counts(), dict(zip(names, place, strict=True)))
        for row in page:
            place = row["queue"], row["partition_key"], row["state"]
            partitions[place] -= row["n"]
        if len(page) < WINDOW:
            return jobs, _wrong(queues), _wrong(partitions)


def _wrong(counts: Counter[Any]) -> Counter[Any]:
    return Counter({key: counts[key] for key in sorted(counts) if counts[key]})


def _batches(counts: Counter[Any]) -> Iterable[tuple[list[Any], list[int]]]:
    entries = list(counts.items())
    for start in range(0, len(entries), _BATCH):
        keys, numbers = zip(*entries[start : start + _BATCH], strict=True)
        yield list(keys), list(numbers)


def _columns(names: Iterable[str], keys: list[Any], numbers: list[int]) -> dict[str, Any]:
    columns = zip(names, zip(*keys, strict=True), strict=True)
    return {**{f"{name}_array": list(values) for name, values in columns}, "n_array": numbers}
