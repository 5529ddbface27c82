"""The two ways to the next jobs, each on a database of its own, taking turns call by call."""

import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from bench.gate.workloads import PLAIN
from headgate.model.job import Acknowledgement, Claim
from headgate.model.lifecycle import Outcome
from headgate.store.admissions import claim_of
from headgate.store.settings import StoreSettings
from headgate.store.store import Store

LEASE_MS = 600_000
WARM_UP = 8


class OurSide:
    """`admit` of the store, as a worker calls it."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def take(self, capacity: int) -> Sequence[Claim]:
        return await self.store.gate.admit("worker", ["default"], capacity, LEASE_MS)


class PlainSide:
    """One statement that knows no policy; its connections and claims are those of the gate."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def take(self, capacity: int) -> Sequence[Claim]:
        rows = await self.store.hot_path.fetch(
            PLAIN,
            {
                "queue": "default",
                "capacity": capacity,
                "lease_id": "lease",
                "lease_ms": LEASE_MS,
                "worker": "worker",
            },
        )
        return [claim_of(row) for row in rows]


Side = OurSide | PlainSide


@asynccontextmanager
async def opened(our_dsn: str, plain_dsn: str) -> AsyncIterator[tuple[Side, Side]]:
    async with (
        Store(StoreSettings(dsn=our_dsn)) as ours,
        Store(StoreSettings(dsn=plain_dsn)) as plain,
    ):
        yield OurSide(ours), PlainSide(plain)


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
                [Acknowledgement(lease=job.lease, outcome=Outcome.SUCCESS) for job in jobs]
            )
    assert min(taken) > 0, "the backlog is too small for this bench"
    return [jobs / spent for jobs, spent in zip(taken, seconds, strict=True)]
