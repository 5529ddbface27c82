"""Whose turn it is: the state of fairness, kept in the process.

Two rotations share the capacity. Queues race: a job costs its queue 1 / weight of virtual time, and
the next job comes from the queue that would finish first. Within a level of a queue partitions take
turns in the order of their keys, from a cursor on.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.model.job import Claim

_LEVELS_KEPT: Final = 64
_LEVELS_RECORDED: Final = 8
# Behind every rate class of a partition.
_END: Final = "\U0010ffff"

Level = tuple[str, int]
"""A queue and a priority."""

Place = tuple[str, str]
"""A lane within a level: its partition key and rate class. Python compares them as the index does,
which sorts by code point."""

StopAt = tuple[str, int, str, str]
"""Queue, priority, partition key and rate class of a lane at which a walk stopped."""

_decode_record: Final = msgspec.json.Decoder(list[tuple[int, str, str]]).decode
_encode_record: Final = msgspec.json.Encoder().encode


class Rotation:
    """The cursors and virtual times of the queues that one process serves."""

    def __init__(self) -> None:
        self.moved: set[str] = set()
        self._finish_tags: dict[str, float] = {}
        self._frontier = 0.0
        self._cursors: defaultdict[str, dict[int, Place]] = defaultdict(dict)

    def parameters(self, queues: Sequence[str]) -> dict[str, Any]:
        """What the statements of the gate bind for a call on these queues."""
        cursors = [
            (queue, priority, *place)
            for queue in queues
            for priority, place in self._cursors[queue].items()
        ]
        return {
            "queues": queues,
            "finish_tags": [self._finish_tags.get(queue, 0.0) for queue in queues],
            "frontier": self._frontier,
            "cursor_queues": [cursor[0] for cursor in cursors],
            "cursor_priorities": [cursor[1] for cursor in cursors],
            "cursor_partition_keys": [cursor[2] for cursor in cursors],
            "cursor_rate_classes": [cursor[3] for cursor in cursors],
        }

    def turn(self, queue: str, priority: int) -> dict[str, Any]:
        """What the statement binds that serves one level."""
        key, rate_class = self._cursor((queue, priority))
        return {
            "queue": queue,
            "level_priority": priority,
            "cursor_partition_key": key,
            "cursor_rate_class": rate_class,
        }

    def charge(self, served: Mapping[str, int], weights: Mapping[str, float]) -> None:
        """Moves the queues that were served so many jobs ahead in the race; the others fall
        behind.
        """
        before = self._frontier
        for queue, jobs in served.items():
            weight = weights.get(queue, 1.0)
            # As in the statements: whoever had no work starts one job behind the frontier.
            start = max(self._finish_tags.get(queue, 0.0), self._frontier - 1 / weight)
            self._finish_tags[queue] = start + jobs / weight
        self._frontier = max(self._frontier, *self._finish_tags.values(), 0.0)
        if self._frontier > before:
            # One job behind is as far back as anybody starts.
            near = (queue for queue, tag in self._finish_tags.items() if tag >= before - 1)
            self.moved.update(near)

    def advance(self, claims: Iterable[Claim], stops: Iterable[StopAt]) -> None:
        """Moves the cursors of all levels that were served, as `serve` does."""
        stopped = self._nearest(stops)
        served: defaultdict[Level, list[str]] = defaultdict(list)
        for claim in claims:
            served[claim.queue, claim.priority].append(claim.partition_key)
        for level, keys in served.items():
            self.serve(level, keys, stopped.get(level))

    def serve(self, level: Level, keys: Sequence[str], stop: Place | None = None) -> None:
        """Moves the cursor of a level behind the partition that was served last: one of `keys`,
        which has the partition of each job.

        That is the last one of the last round, so those that got a job less come first next time.
        Where the walk stopped among the lanes of that very partition, it goes on there.
        """
        last_round: Collection[str] = set(keys)
        if len(last_round) < len(keys):
            jobs = Counter(keys)
            rounds = max(jobs.values())
            last_round = [key for key, count in jobs.items() if count == rounds]
        last = self._last(level, last_round)
        self._move(level, stop if stop and stop[0] == last else (last, _END))

    def skip(self, stops: Iterable[StopAt]) -> None:
        """Lets each level go on behind what was walked in vain."""
        for level, place in self._nearest(stops).items():
            self._move(level, place)

    def unknown(self, queues: Iterable[str]) -> list[str]:
        """The queues that this process has not served yet."""
        return [queue for queue in queues if queue not in self._finish_tags]

    def restore(self, queue: str, lag: float = 0.0, record: str = "") -> None:
        """Begins to serve a queue, where another process left it if that is known."""
        self._finish_tags[queue] = self._frontier + min(lag, 0.0)
        for priority, key, rate_class in _decode_record(record) if record else ():
            self._cursors[queue][priority] = (key, rate_class)

    def begin(self, queue: str, priority: int, partition_key: str) -> None:
        """Begins the rotation of a level behind a partition."""
        self._cursors[queue][priority] = (partition_key, _END)

    def record(self, queue: str) -> tuple[float, str]:
        """What `restore` takes: the lag behind the frontier, and the cursors served last."""
        cursors = list(self._cursors[queue].items())[-_LEVELS_RECORDED:]
        record = _encode_record([(priority, *place) for priority, place in cursors])
        return self._finish_tags.get(queue, self._frontier) - self._frontier, record.decode()

    def _move(self, level: Level, place: Place) -> None:
        queue, priority = level
        cursors = self._cursors[queue]
        cursors.pop(priority, None)
        cursors[priority] = place
        if len(cursors) > _LEVELS_KEPT:
            del cursors[next(iter(cursors))]
        self.moved.add(queue)

    def _cursor(self, level: Level) -> Place:
        queue, priority = level
        return self._cursors[queue].get(priority, ("", ""))

    def _last(self, level: Level, keys: Collection[str]) -> str:
        """The one whose turn comes last, seen from the cursor."""
        key, rate_class = self._cursor(level)
        before = [each for each in keys if each < key or (each == key and rate_class >= _END)]
        return max(before or keys)

    def _nearest(self, stops: Iterable[StopAt]) -> dict[Level, Place]:
        """One stop per level: where pinned and unpinned lanes both have one, the first."""
        nearest: dict[Level, Place] = {}
        for queue, priority, *lane in stops:
            level, place = (queue, priority), (lane[0], lane[1])
            cursor = self._cursor(level)
            known = nearest.get(level)
            if known is None or (place <= cursor, place) < (known <= cursor, known):
                nearest[level] = place
        return nearest
