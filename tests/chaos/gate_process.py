"""One of the processes that press on the gate: `python -m tests.chaos.gate_process`.

Its orders come as JSON on stdin and its report goes as JSON to stdout. Several gates admit, run and
end jobs, or forget them as workers do that die; a producer enqueues in transactions that hesitate
and are sometimes undone.
"""

import asyncio
import random
import sys

import asyncpg
import msgspec

from headgate.model.envelope import Envelope
from headgate.model.job import Acknowledgement, Claim
from headgate.model.lifecycle import DELETED, Outcome
from headgate.store import gate as gate_module
from headgate.store.gate import Gate
from headgate.store.joining import enqueue_in
from headgate.store.settings import StoreSettings
from headgate.store.store import Store

FREE, LIMITED, MIXED = "free", "limited", "mixed"
REFUSING, DISPLACING, CLOSED = "refusing", "displacing", "closed"
QUEUES = (FREE, LIMITED, MIXED, REFUSING, DISPLACING, CLOSED)
CLASSES = ("x", "y", "z")
# Few in the queues with ceilings, so that places are fought for; many in the free one, so that
# lanes are drained and come again.
PARTITIONS = {FREE: 200, LIMITED: 4, MIXED: 20, REFUSING: 4, DISPLACING: 4}
GATES = 5
LEASE_MS = 2_000
BAD = "bad"
OUTCOMES = (Outcome.SUCCESS, Outcome.SUCCESS, Outcome.RATE_LIMITED, Outcome.RETRY)


class Orders(msgspec.Struct):
    dsn: str
    seed: int
    seconds: float
    workers: list[str]
    """The names of all workers under stress; the first ones belong to this process."""


class Seen(msgspec.Struct):
    """What one process saw: `claims` are (job id, fence), `spent` what each took from its class as
    (claimed at, rate class, weight).
    """

    claims: list[tuple[str, int]]
    spent: list[tuple[int, str, int]]
    violations: list[str]
    committed: int
    deleted: int


class Pressure:
    def __init__(self, orders: Orders, store: Store) -> None:
        self._orders = orders
        self._store = store
        self._random = random.Random(orders.seed)
        self._started = asyncio.Event()
        self._stop = asyncio.Event()
        self.seen = Seen([], [], [], 0, 0)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for worker in self._orders.workers[:GATES]:
                group.create_task(self._work(worker))
            group.create_task(self._produce())
            # From the first claim on; before it statements are compiled and planned.
            await self._started.wait()
            await asyncio.sleep(self._orders.seconds)
            self._stop.set()

    async def _produce(self) -> None:
        chance = self._random
        connection = await asyncpg.connect(self._orders.dsn)
        while not self._stop.is_set():
            batch = self._batch()
            transaction = connection.transaction()
            await transaction.start()
            await enqueue_in(connection, batch)
            if chance.random() < 0.1:
                await asyncio.sleep(0.05)
            if chance.random() < 0.05:
                await transaction.rollback()
            else:
                await transaction.commit()
                self.seen.committed += len(batch)
            await asyncio.sleep(chance.random() * 0.02)
        await connection.close()

    def _batch(self) -> list[Envelope]:
        chance = self._random
        queue = chance.choice(list(PARTITIONS))
        template = Envelope(
            kind="mail",
            queue=queue,
            partition_key=f"t{chance.choice([0, 0, 0, *range(PARTITIONS[queue])])}",
            rate_class="" if queue == FREE else chance.choice(["", "unknown", *CLASSES]),
            priority=chance.choice([0, 0, 0, 5]),
            weight=chance.choice([1, 1, 1, 3]),
            # Unlike any other: leases that run out three times put away what is alike.
            payload=b"%d" % chance.getrandbits(64),
            sticky_worker=chance.choice([""] * 9 + [chance.choice(self._orders.workers)]),
            max_attempts=1_000,
        )
        return [template] * chance.choice([1, 1, 5, 30])

    async def _work(self, worker: str) -> None:
        chance = self._random
        gate = Gate(self._store.gate._database)
        queues = chance.choice([QUEUES, (LIMITED,), (FREE, LIMITED), (REFUSING, DISPLACING)])
        held: list[Claim] = []
        while not self._stop.is_set():
            capacity = chance.choice([1, 2, 10, 30])
            claims = await gate.admit(worker, queues, capacity, LEASE_MS)
            self._note(worker, claims, capacity)
            held += claims
            # Long enough for others to see what runs, and to want the places.
            await asyncio.sleep(chance.random() * 0.02)
            chance.shuffle(held)
            ended, held = held[: len(held) * 3 // 4], held[len(held) * 3 // 4 :]
            # Some are forgotten, as by a worker that dies.
            settled = await self._store.leases.acknowledge(
                [
                    Acknowledgement(lease=claim.lease, outcome=chance.choice(OUTCOMES), delay_ms=1)
                    for claim in ended
                    if chance.random() > 0.03
                ]
            )
            self.seen.deleted += sum(each.state == DELETED for each in settled)

    def _note(self, worker: str, claims: list[Claim], capacity: int) -> None:
        if len(claims) > capacity:
            self.seen.violations.append(f"{len(claims)} claims for {capacity}")
        if claims:
            self._started.set()
        for claim in claims:
            self.seen.claims.append((claim.job_id, claim.fence))
            self.seen.spent.append((claim.claimed_at_ms, claim.rate_class, claim.weight))
            if claim.sticky_worker not in ("", worker):
                self.seen.violations.append(f"pinned to {claim.sticky_worker}, not {worker}")
            if claim.queue == CLOSED:
                self.seen.violations.append("from a paused queue")
            if claim.fingerprint == BAD:
                self.seen.violations.append("in quarantine")


async def press(orders: Orders) -> Seen:
    # Prunes as often as it can, to meet every producer.
    gate_module._UPKEEP_INTERVAL_S = 0.0  # type: ignore[misc]  # final but for this process
    settings = StoreSettings(dsn=orders.dsn, gate_pool_size=GATES)
    async with Store(settings) as store:
        pressure = Pressure(orders, store)
        await pressure.run()
        return pressure.seen


def main() -> None:
    orders = msgspec.json.decode(sys.stdin.buffer.read(), type=Orders)
    sys.stdout.buffer.write(msgspec.json.encode(asyncio.run(press(orders))))


if __name__ == "__main__":
    main()
