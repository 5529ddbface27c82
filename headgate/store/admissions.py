"""What one admission is made of: the call, the report on it, and what is remembered of the last."""

import os
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec

from headgate.model.errors import InvalidRequest
from headgate.model.job import Claim
from headgate.model.limits import check_characters
from headgate.model.policy import Saturation
from headgate.queries.gate.refusal import MODES
from headgate.store.database import Row
from headgate.store.lanes import LaneKey
from headgate.store.rotation import Rotation, StopAt

MAX_CAPACITY: Final = 10_000

# For so many calls a policy that was met is expected again.
_POLICY_MEMORY: Final = 128
# For so many calls no shortcut is taken after one has led nowhere.
_SHORTCUT_MEMORY: Final = 16
# After so many calls the way to go is chosen anew.
_SURVEY_INTERVAL: Final = 64

_AGE: Final = attrgetter("scheduled_at_ms")
_PRIORITY: Final = attrgetter("priority")
_FIELDS: Final = len(Claim.__struct_fields__)


class Report(msgspec.Struct):
    """What the complete gate says of itself, in the words of its statement."""

    weights: dict[str, float] | None = None
    ceilings: list[str] | None = None
    buckets: bool = False
    stops: list[StopAt] | None = None
    busy_classes: list[str] | None = None
    busy_partitions: list[tuple[str, str]] | None = None
    missing: list[tuple[str, str]] | None = None
    drained: list[LaneKey] | None = None
    more: bool = False
    vain: list[StopAt] | None = None
    deeper: dict[str, int] | None = None

    @property
    def busy(self) -> bool:
        return bool(self.busy_classes or self.busy_partitions)

    @property
    def displaces(self) -> bool:
        """What runs in some queue may have to make room."""
        return Saturation.CANCEL_RUNNING in (self.ceilings or ())

    @property
    def refuses(self) -> bool:
        """What waits for room in some queue is to be ended."""
        return any(mode in MODES for mode in self.ceilings or ())


decode_report: Final = msgspec.json.Decoder(Report).decode
_decode_json: Final = msgspec.json.Decoder().decode


class Call:
    """One admission: what is still wanted, and what it has got so far, under one lease id."""

    def __init__(self, worker: str, queues: Sequence[str], capacity: int, lease_ms: int) -> None:
        if not worker:
            raise InvalidRequest("worker must not be empty")
        check_characters("worker", worker)
        if not queues:
            raise InvalidRequest("queues must not be empty")
        for queue in queues:
            check_characters("queue", queue)
        if not 1 <= capacity <= MAX_CAPACITY:
            raise InvalidRequest(f"capacity must be between 1 and {MAX_CAPACITY}")
        if lease_ms < 1:
            raise InvalidRequest("lease must be >= 1ms")
        self.worker = worker
        self.queues = sorted(set(queues))
        self.wanted = capacity
        self.claims: list[Claim] = []
        self._lease = {"new_lease_id": os.urandom(16).hex(), "lease_ms": lease_ms}

    def parameters(self, **others: Any) -> dict[str, Any]:
        return {
            **self._lease,
            "worker": self.worker,
            "queues": self.queues,
            "capacity": self.wanted,
            **others,
        }

    def take(self, rows: Iterable[Row]) -> list[Claim]:
        """Books the claims that a statement returned, and hands them out."""
        claims = [claim_of(row) for row in rows]
        self.claims += claims
        self.wanted -= len(claims)
        return claims


class Memory:
    """What the last calls of one worker for the same queues have taught.

    `lane` is the only one there was; `level` the priority at which the only queue was served twice
    in a row, without pinned jobs; `deeper` the priorities below which the next call that comes
    short has not looked yet; `watch` says where the search for starving jobs goes on, `due` when.
    `limited` says that the last call went through rate classes, `crowded` through ceilings.
    """

    def __init__(self) -> None:
        self.lane: LaneKey | None = None
        self.level: int | None = None
        self.came_short = True
        self.deeper: dict[str, int] = {}
        self.limited = False
        self.crowded = False
        self.watch = Rotation()
        self.due: dict[str, float] = {}
        self._calls = 0
        self._ceilings = 0
        self._displacement = 0
        self._buckets = 0
        self._detour = 0
        self._last_level: int | None = None

    def ended(self, came_short: bool) -> None:
        """Notes how a call ended."""
        self._calls += 1
        self.came_short = came_short

    @property
    def looks_around(self) -> bool:
        """The next call chooses its way anew: the last one came short, or it is time for that."""
        return self.came_short or self._calls % _SURVEY_INTERVAL == 0

    def met(self, queues: Sequence[str], claims: Sequence[Claim]) -> None:
        """Notes at which level the queue was served, if there is one queue and one level."""
        levels = {claim.priority for claim in claims}
        pinned = any(claim.sticky_worker for claim in claims)
        level = levels.pop() if len(queues) == len(levels) == 1 and not pinned else None
        self.level = level if level == self._last_level else None
        self._last_level = level

    @property
    def policies(self) -> dict[str, bool]:
        """The steps to reckon with in the complete gate."""
        return {
            "with_ceilings": self._ceilings > 0,
            "with_buckets": self._buckets > 0,
            "with_displacement": self._displacement > 0,
        }

    @property
    def shortcuts(self) -> bool:
        """Nothing is known that would close the cheaper statements."""
        return not (self._ceilings or self._buckets or self._detour)

    def led_nowhere(self) -> None:
        """A shortcut left to the complete gate what that could give."""
        self._detour = _SHORTCUT_MEMORY

    def went_around(self) -> None:
        self._detour = max(0, self._detour - 1)

    def resume(self, deeper: Mapping[str, int]) -> dict[str, int]:
        """Below which priorities to look first, given where the highest levels end."""
        return {
            queue: min(priority, self.deeper.get(queue, priority))
            for queue, priority in deeper.items()
        }

    def learn(self, report: Report) -> bool:
        """Notes the policies that were met; true when one of them was not reckoned with."""
        surprised = (
            (bool(report.ceilings) and not self._ceilings)
            or (report.displaces and not self._displacement)
            or (report.buckets and not self._buckets)
        )
        self._ceilings = _expectation(bool(report.ceilings), self._ceilings)
        # The step needs the ceilings, so it is not expected for longer than those.
        self._displacement = _expectation(report.displaces, self._displacement)
        self._buckets = _expectation(report.buckets, self._buckets)
        return surprised


def _expectation(met: bool, before: int) -> int:
    """For how many calls a policy is expected."""
    return _POLICY_MEMORY if met else max(0, before - 1)


def claim_of(row: Row) -> Claim:
    claim = Claim(*row[:_FIELDS])
    # Most jobs have neither; the texts are those of the database.
    headers: Any = claim.headers
    checkpoint: Any = claim.checkpoint
    claim.headers = {} if headers == "{}" else _decode_json(headers)
    claim.checkpoint = {} if checkpoint == "{}" else _decode_json(checkpoint)
    return claim


def in_order(claims: list[Claim]) -> None:
    """Sorts by priority, then by age."""
    claims.sort(key=_AGE)
    claims.sort(key=_PRIORITY, reverse=True)
