"""Many gates at once, over producers that hesitate and workers that die."""

import asyncio
import random
from collections import Counter

import asyncpg
import pytest

from headgate.model.envelope import Envelope
from headgate.model.job import Acknowledgement, Claim
from headgate.model.lifecycle import Outcome
from headgate.store import gate as gate_module
from headgate.store.gate import Gate
from headgate.store.joining import enqueue_in
from headgate.store.store import Store
from tests.store.backlog import bucket, ceiling, fill, weigh
from tests.store.conftest import OpenStore
from tests.store.rows import Observer, assert_lanes, count_jobs, deadlocks

WORKERS = 8
STRESS_S = 6.0
LEASE_MS = 2_000
CEILING = 3
QUEUES = ("free", "limited", "mixed")
# name: (limit per second, burst)
CLASSES = {"x": (50, 20), "y": (200, 40), "z": (30, 10)}


@pytest.mark.parametrize("partitions", [1, 3])
async def test_no_job_is_claimed_twice(
    open_store: OpenStore, observer: Observer, partitions: int
) -> None:
    store = open_store(gate_pool_size=WORKERS)
    for number in range(partitions):
        # Uneven, so that the complete gate is needed as well.
        await fill(store, 600 // 2**number, partition_key=f"t{number}")
    jobs = await count_jobs(observer)
    claims: list[Claim] = []

    async def work(number: int) -> None:
        gate = Gate(store.gate._database)
        while len(claims) < jobs:
            claims.extend(await gate.admit(f"w{number}", ["default"], 20, 60_000))

    await asyncio.gather(*(work(number) for number in range(WORKERS)))
    assert len({claim.job_id for claim in claims}) == len(claims) == jobs
    started = "SELECT count(*) FROM headgate_job WHERE state = 'running' AND fence = 1"
    assert await observer.fetchval(started) == jobs


class Stress:
    """What runs against each other, and what was seen."""

    def __init__(self, store: Store, dsn: str, seed: int) -> None:
        self.store = store
        self.dsn = dsn
        self.stop = asyncio.Event()
        self.claims: list[Claim] = []
        self.violations: list[str] = []
        self.random = random.Random(seed)

    async def run(self, observer: Observer) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(WORKERS):
                group.create_task(self._work(number))
            for _ in range(3):
                group.create_task(self._produce())
            group.create_task(self._reclaim())
            group.create_task(self._check(observer))
            await asyncio.sleep(STRESS_S)
            self.stop.set()

    async def _produce(self) -> None:
        chance = self.random
        connection = await asyncpg.connect(self.dsn)
        while not self.stop.is_set():
            transaction = connection.transaction()
            await transaction.start()
            await enqueue_in(connection, self._batch())
            if chance.random() < 0.1:
                await asyncio.sleep(0.05)
            if chance.random() < 0.05:
                await transaction.rollback()
            else:
                await transaction.commit()
            await asyncio.sleep(chance.random() * 0.02)
        await connection.close()

    def _batch(self) -> list[Envelope]:
        chance = self.random
        queue = chance.choice(QUEUES)
        template = Envelope(
            kind="mail",
            queue=queue,
            partition_key=f"t{chance.choice([0, 0, 0, *range(20)])}",
            rate_class="" if queue == "free" else chance.choice(["", "unknown", *CLASSES]),
            priority=chance.choice([0, 0, 0, 5]),
            weight=chance.choice([1, 1, 1, 3]),
            sticky_worker=chance.choice([""] * 9 + [f"w{chance.randrange(WORKERS)}"]),
        )
        return [template] * chance.choice([1, 1, 5, 30])

    async def _work(self, number: int) -> None:
        chance = self.random
        gate = Gate(self.store.gate._database)
        queues = QUEUES if number % 3 else ("limited",)
        held: list[Claim] = []
        while not self.stop.is_set():
            claims = await gate.admit(f"w{number}", queues, chance.choice([1, 2, 10, 30]), LEASE_MS)
            for claim in claims:
                if claim.sticky_worker not in ("", f"w{number}"):
                    self.violations.append(f"pinned to {claim.sticky_worker}, not w{number}")
            self.claims += claims
            held += claims
            await asyncio.sleep(chance.random() * 0.01)
            chance.shuffle(held)
            finished, held = held[: len(held) * 3 // 4], held[len(held) * 3 // 4 :]
            # Some are forgotten, as by a worker that dies.
            await self.store.leases.acknowledge(
                [
                    Acknowledgement(
                        lease=claim.lease,
                        outcome=chance.choice([Outcome.SUCCESS, Outcome.RATE_LIMITED]),
                    )
                    for claim in finished
                    if chance.random() > 0.03
                ]
            )

    async def _reclaim(self) -> None:
        while not self.stop.is_set():
            await self.store.upkeep.reclaim_expired(1_000)
            await self.store.upkeep.promote_due(1_000)
            await asyncio.sleep(0.1)

    async def _check(self, observer: Observer) -> None:
        while not self.stop.is_set():
            over = await observer.fetch(
                "SELECT partition_key, count(*) FROM headgate_job WHERE state = 'running'"
                " AND queue = 'limited' GROUP BY 1 HAVING count(*) > $1",
                CEILING,
            )
            self.violations += [f"{row['count']} run in {row['partition_key']}" for row in over]
            wrong = await observer.fetch(
                "SELECT name, tokens FROM headgate_rate_bucket WHERE tokens < 0 OR tokens > burst"
            )
            self.violations += [f"{row['tokens']} tokens in {row['name']}" for row in wrong]
            await asyncio.sleep(0.005)


@pytest.fixture
def stress(
    open_store: OpenStore, headgate_database: str, monkeypatch: pytest.MonkeyPatch
) -> Stress:
    # Prunes as often as it can, to meet every producer.
    monkeypatch.setattr(gate_module, "_UPKEEP_INTERVAL_S", 0.0)
    return Stress(open_store(gate_pool_size=WORKERS), headgate_database, seed=1)


async def test_guarantees_hold_under_stress(stress: Stress, observer: Observer) -> None:
    await ceiling(observer, "limited", CEILING)
    await weigh(observer, "limited", 2)
    await weigh(observer, "mixed", 3)
    for name, (limit, burst) in CLASSES.items():
        await bucket(observer, name, limit, burst=burst)
    loop = asyncio.get_running_loop()
    started, deadlocks_before = loop.time(), await deadlocks(observer)

    await stress.run(observer)
    elapsed = loop.time() - started

    assert stress.violations == []
    assert len(stress.claims) > 300
    entries = [(claim.job_id, claim.fence) for claim in stress.claims]
    assert len(set(entries)) == len(entries), "a job was claimed twice"
    cost = Counter[str]()
    for claim in stress.claims:
        cost[claim.rate_class] += claim.weight
    for name, (limit, burst) in CLASSES.items():
        assert 0 < cost[name] <= burst + limit * elapsed
    await assert_lanes(observer)
    assert await deadlocks(observer) == deadlocks_before
    await _assert_all_can_be_reached(stress.store, observer)


async def _assert_all_can_be_reached(store: Store, observer: Observer) -> None:
    """Without policies everything that waits is admitted, and nothing else is left waiting."""
    for table in ("concurrency_limit", "rate_bucket"):
        await observer.execute(f"DELETE FROM headgate_{table}")  # noqa: S608  # a constant
    for number in range(WORKERS):
        gate = Gate(store.gate._database)
        while await gate.admit(f"w{number}", QUEUES, 1_000, 60_000):
            pass
    left = "SELECT count(*) FROM headgate_job WHERE state = 'available'"
    assert await observer.fetchval(left) == 0
