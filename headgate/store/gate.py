"""The gate's driver: which statement when, and what to do when one comes short."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from random import random
from typing import Any, Final

import asyncpg

from headgate.model.errors import StoreError, StoreUnavailable
from headgate.model.job import Claim
from headgate.queries.gate.direct import direct
from headgate.queries.gate.fast import fast
from headgate.queries.gate.full import full
from headgate.queries.gate.prelude import add_partitions, lock_buckets, lock_partitions
from headgate.queries.gate.refill import refill
from headgate.queries.gate.refusal import refuse
from headgate.queries.gate.reservation import reserve
from headgate.queries.gate.rotation import any_places, read_rotation, write_rotation
from headgate.queries.gate.survey import occupied, survey
from headgate.queries.gate.turns import turns
from headgate.queries.gate.walk import ANY_PRIORITY
from headgate.queries.lanes import LANE
from headgate.queries.settings import local_settings
from headgate.store.admissions import Call, Memory, Report, decode_report, in_order
from headgate.store.database import Database, Row, Session
from headgate.store.lanes import LaneKey, lane_key, prune
from headgate.store.rotation import Rotation, StopAt

_ROUNDS: Final = 3
# Gates hold policy rows for milliseconds. No worker stands idle for whoever holds them longer.
_PATIENCE: Final = (("lock_timeout", "1000"),)
_CALLERS_KEPT: Final = 256
# Of a level, for what is done beside the admission.
_LANES: Final = 100
_UPKEEP_INTERVAL_S: Final = 1.0


class Gate:
    """Admission for the workers of this process: what they may start now.

    Whose turn it is is kept here, shared by all calls; the policies are in the database.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._rotation = Rotation()
        self._memories: dict[tuple[str, tuple[str, ...]], Memory] = {}
        self._due: dict[str, float] = {}
        self._recording: asyncio.Task[None] | None = None

    async def admit(
        self, worker: str, queues: Sequence[str], capacity: int, lease_ms: int
    ) -> list[Claim]:
        """Starts up to `capacity` jobs of these queues for `worker`, all under one new lease id.

        The leases end `lease_ms` from now. Claims come by priority, then by age. Fewer than
        `capacity` may come while more is waiting; an empty list says that nothing may start now, or
        that other gates were faster. Raises `InvalidRequest`, and `StoreUnavailable` when nothing
        was started, as far as is known: jobs whose claims got lost on the way come back when their
        leases expire.
        """
        call = Call(worker, queues, capacity, lease_ms)
        memory = self._remember(call)
        await self._restore(call.queues)
        try:
            await self._admit(call, memory)
        except StoreError:
            # What has started must not be lost for what came after it.
            if not call.claims:
                raise
        self._record()
        memory.ended(call.wanted > 0)
        in_order(call.claims)
        return call.claims

    async def refill_ms(self, worker: str, queues: Sequence[str]) -> int | None:
        """When to look again, after an `admit` that came back empty: in how many milliseconds a
        rate class will hold what a job costs that waits for nothing else.

        None where that is not what was in the way; it takes no statement to tell that there was no
        rate class. Raises `InvalidRequest` and `StoreUnavailable`.
        """
        call = Call(worker, queues, _LANES, 1)
        if not self._remember(call).limited:
            return None
        rows = await self._database.fetch(refill(), _walk(call, {}, self._rotation))
        found: int | None = rows[0]["refill_ms"]
        return found

    def is_crowded(self, worker: str, queues: Sequence[str]) -> bool:
        """Whether a job that ends may let another start, after an `admit` that came back empty:
        there are ceilings, and something waits.
        """
        return self._remember(Call(worker, queues, 1, 1)).crowded

    async def close(self) -> None:
        """Waits until what others are to know of the rotation is written."""
        if self._recording is not None:
            await self._recording

    async def _admit(self, call: Call, memory: Memory) -> None:
        """Tries the cheapest statement that may do, then the next."""
        memory.limited = memory.crowded = False
        tried = memory.lane if memory.shortcuts else None
        if tried and await self._direct(call, memory, tried):
            return
        if memory.looks_around:
            lanes = [
                lane_key(row) for row in await self._database.fetch(survey(), call.parameters())
            ]
            if not lanes or (len(lanes) == 1 and await self._only(call, memory, lanes[0], tried)):
                return
        if memory.shortcuts and not memory.came_short:
            await self._shared(call, memory)
            if call.wanted:
                await self._full(call, memory)
                if not call.wanted:
                    memory.led_nowhere()
            return
        memory.went_around()
        await self._full(call, memory, brief=not memory.looks_around)

    async def _only(self, call: Call, memory: Memory, lane: LaneKey, tried: LaneKey | None) -> bool:
        """Whether the one lane there is needs no more: it gave something, or has nothing."""
        pinned = bool(lane[1])
        untried = memory.shortcuts and not pinned and lane != tried
        if untried and await self._direct(call, memory, lane):
            return True
        if await self._database.fetch(occupied(), _lane(lane)):
            # It may have come in this moment; the complete gate is for what is held back.
            return memory.shortcuts and not pinned and await self._direct(call, memory, lane)
        if self._is_due("prune"):
            await prune(self._database, [lane])
        return True

    async def _direct(self, call: Call, memory: Memory, lane: LaneKey) -> bool:
        """Whether the one lane gave something; then it gave all that there is to be had."""
        rows = await self._database.fetch(direct(), call.parameters(**_lane(lane)))
        if not rows:
            memory.lane, memory.came_short = None, True
            return False
        memory.lane = lane
        call.take(rows)
        return True

    async def _shared(self, call: Call, memory: Memory) -> None:
        """Takes equal shares of the highest level of each queue, if no policy is in the way."""
        if memory.level is not None:
            level = (call.queues[0], memory.level)
            turn = self._rotation.turn(*level)
            claims = call.take(await self._database.fetch(turns(), call.parameters(**turn)))
            if claims:
                self._rotation.charge({call.queues[0]: len(claims)}, {})
                self._rotation.serve(level, [claim.partition_key for claim in claims])
                return
        parameters = call.parameters(**self._rotation.parameters(call.queues))
        rows = await self._database.fetch(fast(), parameters)
        claims = call.take(rows)
        self._book(claims, {row["queue"]: row["queue_weight"] for row in rows})
        memory.met(call.queues, claims)

    def _book(
        self, claims: Sequence[Claim], weights: Mapping[str, float], stops: Iterable[StopAt] = ()
    ) -> None:
        self._rotation.charge(Counter([claim.queue for claim in claims]), weights)
        self._rotation.advance(claims, stops)

    async def _full(self, call: Call, memory: Memory, *, brief: bool = False) -> None:
        """Runs the complete gate until the capacity is used or nothing more is to be had; at first
        a `brief` one if that may do.
        """
        report = Report()
        below: dict[str, int] = {}
        rounds = 0
        while call.wanted and rounds < _ROUNDS:
            try:
                report = await self._round(call, memory, report, below, brief=brief)
            except StoreUnavailable as failure:
                if isinstance(failure.__cause__, asyncpg.LockNotAvailableError):
                    return
                raise
            surprised = memory.learn(report)
            memory.limited = memory.policies["with_buckets"]
            memory.crowded = memory.policies["with_ceilings"]
            if surprised:
                continue
            if brief and call.wanted:
                brief = False
                continue
            rounds += 1
            if report.refuses:
                await self._refuse(call, below)
            if memory.policies["with_buckets"] and self._is_due(
                f"reserve {bool(below)}", memory.due
            ):
                await self._reserve(call, memory, below)
            if report.missing:
                await self._database.fetch(add_partitions(), _partitions(report.missing))
            if not call.wanted:
                return
            if report.missing or report.busy or await self._hindered(report):
                continue
            if below:
                memory.deeper = report.deeper or {}
            if not report.deeper:
                return
            # Below the highest levels each call goes on where the last one ended.
            below = report.deeper if below else memory.resume(report.deeper)

    async def _round(
        self, call: Call, memory: Memory, last: Report, below: Mapping[str, int], *, brief: bool
    ) -> Report:
        """One run of the complete gate, after a wait for what the last one found busy."""
        statement = full(**memory.policies, brief=brief)
        parameters = _walk(call, below, self._rotation)
        if last.busy:

            async def after_waiting(session: Session) -> list[Row]:
                await _wait(session, last)
                return await session.fetch(statement, parameters)

            rows = await self._database.transact(after_waiting)
        else:
            rows = await self._database.fetch(statement, parameters)
        report = decode_report(rows[-1]["report"])
        self._book(call.take(rows[:-1]), report.weights or {}, report.stops or ())
        return report

    async def _refuse(self, call: Call, below: Mapping[str, int]) -> None:
        """Ends what the ceilings of its queues let neither start nor wait."""
        walk = _walk(call, below, self._rotation) | {"capacity": _LANES}
        await self._database.fetch(refuse(), walk)

    async def _reserve(self, call: Call, memory: Memory, below: Mapping[str, int]) -> None:
        """Lets rate classes save up for heavy jobs that were overtaken for too long."""
        walk = _walk(call, below, memory.watch) | {"capacity": _LANES}
        memory.watch.skip(tuple(row) for row in await self._database.fetch(reserve(), walk))

    async def _hindered(self, report: Report) -> bool:
        """Whether another round may find what this one did not get to, and clears its way."""
        self._rotation.skip(report.vain or ())
        hindered = bool(report.vain or report.more)
        if report.drained and (hindered or self._is_due("prune")):
            await prune(self._database, report.drained)
        return hindered

    async def _restore(self, queues: Sequence[str]) -> None:
        """Takes the rotation of queues that are new to this process up where another left it, or
        anywhere.
        """
        unknown = self._rotation.unknown(queues)
        if unknown:
            stand = {"queues": unknown, "chance": random()}
            places = await self._database.fetch(any_places(), stand)
            rows = await self._database.fetch(read_rotation(), stand)
            for queue in unknown:
                self._rotation.restore(queue)
            for place in places:
                self._rotation.begin(*place)
            for row in rows:
                self._rotation.restore(row["queue"], row["virtual_time"], row["rotation_cursor"])

    def _record(self) -> None:
        """Lets others know of the rotation, now and then. No admission waits for that."""
        if self._rotation.moved and self._recording is None and self._is_due("record"):
            self._recording = asyncio.get_running_loop().create_task(self._write_rotation())

    async def _write_rotation(self) -> None:
        moved = sorted(self._rotation.moved)
        lags, cursors = zip(*(self._rotation.record(queue) for queue in moved), strict=True)
        self._rotation.moved.clear()
        try:
            # Whoever begins before the next one begins anywhere.
            with suppress(StoreError):
                await self._database.fetch(
                    write_rotation(),
                    {"queues": moved, "virtual_times": lags, "rotation_cursors": cursors},
                )
        finally:
            self._recording = None

    def _is_due(self, upkeep: str, due: dict[str, float] | None = None) -> bool:
        """Once per interval; what is done on the side must not slow admission down."""
        due = self._due if due is None else due
        now = time.monotonic()
        if now < due.get(upkeep, 0.0):
            return False
        due[upkeep] = now + _UPKEEP_INTERVAL_S
        return True

    def _remember(self, call: Call) -> Memory:
        caller = (call.worker, tuple(call.queues))
        memory = self._memories.get(caller)
        if memory is None:
            if len(self._memories) == _CALLERS_KEPT:
                del self._memories[next(iter(self._memories))]
            memory = self._memories[caller] = Memory()
        return memory


def _walk(call: Call, below: Mapping[str, int], rotation: Rotation) -> dict[str, Any]:
    """What the statements bind that walk over lanes: all of them, or those `below` a level."""
    queues = list(below) or call.queues
    return call.parameters(
        **rotation.parameters(queues),
        below_priorities=[below.get(queue, ANY_PRIORITY) for queue in queues],
    )


async def _wait(session: Session, report: Report) -> None:
    await session.fetch(local_settings(_PATIENCE))
    if report.busy_classes:
        await session.fetch(lock_buckets(), {"busy_classes": report.busy_classes})
    if report.busy_partitions:
        partitions = _partitions(report.busy_partitions)
        await session.fetch(lock_partitions(), partitions)


def _lane(lane: LaneKey) -> dict[str, Any]:
    return {f"lane_{name}": value for name, value in zip(LANE, lane, strict=True)}


def _partitions(partitions: Sequence[tuple[str, str]]) -> dict[str, Any]:
    queues, keys = zip(*partitions, strict=True)
    return {"busy_queues": queues, "busy_partition_keys": keys}
