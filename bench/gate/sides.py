"""The two ways to the next jobs, each on a database of its own, taking turns call by call."""

import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from bench.gate.workloads import PLAIN
from headgate.model.job import Acknowledgement, Lease
from headgate.model.lifecycle import Outcome
from headgate.store.database import GATE_SETTINGS
from headgate.store.settings import StoreSettings
from headgate.store.store import Store

LEASE_MS = 600_000
WARM_UP = 8


class OurSide:
    """`admit` of the store, as a worker calls it."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def take(self, capacity: int) -> Sequence[Any]:
        return await self.store.gate.admit("worker", ["default"], capacity, LEASE_MS)

    def leases(self, claims: Sequence[Any]) -> list[Lease]:
        return [claim.lease for claim in claims]


class PlainSide:
    """One prepared statement on a connection with the settings of the gate's."""

    def __init__(self, store: Store, statement: Any) -> None:
        self.store = store
        self._statement = statement

    async def take(self, capacity: int) -> Sequence[Any]:
        rows: list[Any] = await self._statement.fetch(
            "default", capacity, "lease", LEASE_MS, "worker"
        )
        return rows

    def leases(self, rows: Sequence[Any]) -> list[Lease]:
        return [Lease(row["ulid"], row["lease_id"], row["fence"]) for row in rows]


Side = OurSide | PlainSide


@asynccontextmanager
async def opened(our_dsn: str, plain_dsn: str) -> AsyncIterator[tuple[OurSide, PlainSide]]:
    settings = {**GATE_SETTINGS, "jit": "off"}
    connection = await asyncpg.connect(plain_dsn, server_settings=settings)
    try:
        async with (
            Store(StoreSettings(dsn=our_dsn)) as ours,
            Store(StoreSettings(dsn=plain_dsn)) as plain,
        ):
            yield OurSide(ours), PlainSide(plain, await connection.prepare(PLAIN))
    finally:
        await connection.close()


async def claims_per_second(
    sides: Sequence[Side], capacity: int, *, calls: int, rounds: int
) -> list[list[float]]:
    """For each side the rate of every round. What was taken is completed between the calls."""
    await _round(sides, capacity, WARM_UP)
    found = [await _round(sides, capacity, calls) for _ in range(rounds)]
    return [list(rates) for rates in zip(*found, strict=True)]


async def _round(sides: Sequence[Side], capacity: int, calls: int) -> list[float]:
    seconds, taken = [0.0] * len(sides), [0] * len(sides)
    for _ in range(calls):
        for place in random.sample(range(len(sides)), len(sides)):
            side = sides[place]
            started = time.perf_counter()
            jobs = await side.take(capacity)
            seconds[place] += time.perf_counter() - started
            taken[place] += len(jobs)
            await side.store.leases.acknowledge(
                [
                    Acknowledgement(lease=lease, outcome=Outcome.SUCCESS)
                    for lease in side.leases(jobs)
                ]
            )
    assert min(taken) > 0, "the backlog is too small for this bench"
    return [jobs / spent for jobs, spent in zip(taken, seconds, strict=True)]
