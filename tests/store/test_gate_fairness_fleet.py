"""Turns where many gates and many partitions meet: how long the last one waits, how equal they are.

Each gate is a process of its own as far as turns go, and begins somewhere.
"""

from collections import Counter
from random import Random

import pytest

from headgate.model.job import Claim
from headgate.store import gate as gate_module
from headgate.store.gate import Gate
from headgate.store.store import Store
from tests.store.backlog import admit, ceiling
from tests.store.rows import Observer

GATES = 8
SMALL = 99
JOBS = 10
FLOOD = 5_000
MANY = 3_000
# The gates begin anywhere: with this seed not next to each other, and not evenly spread.
SEED = 1

_JOBS = """
INSERT INTO headgate_job (ulid, kind, payload, partition_key, fingerprint, enqueued_at_ms,
  scheduled_at_ms)
SELECT 'j' || n, 'mail', '', CASE WHEN n <= $1 THEN 'flood' ELSE 't' || n % $3 END, '', n, n
FROM generate_series(1, $1::int + $2::int) AS n
"""
_LANES = """
INSERT INTO headgate_active_partition (queue, partition_key)
SELECT DISTINCT queue, partition_key FROM headgate_job
"""
_PARTITIONS = """
INSERT INTO headgate_inflight (queue, partition_key)
SELECT DISTINCT queue, partition_key FROM headgate_job
"""


async def backlog(observer: Observer, *, flood: int, small: int, partitions: int) -> None:
    """One partition with `flood` jobs that are older than the `small` ones of the others."""
    await observer.execute(_JOBS, flood, small, partitions)
    await observer.execute(_LANES)
    await observer.execute(_PARTITIONS)


@pytest.fixture(autouse=True)
def _anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_module, "random", Random(SEED).random)


async def fleet(store: Store, capacity: int, jobs: int) -> list[Claim]:
    """What many gates start, in that order, until there are so many.

    Whose turn it is comes from the seed: how the machine schedules them is not what is judged here.
    """
    claims: list[Claim] = []
    gates = {f"w{number}": Gate(store.gate._database) for number in range(GATES)}
    turns = Random(SEED)
    while len(claims) < jobs:
        worker = turns.choice(list(gates))
        claims.extend(await gates[worker].admit(worker, ["default"], capacity, 60_000))
    return claims


either_statement = pytest.mark.parametrize("limited", [False, True], ids=["shortcut", "complete"])
either_capacity = pytest.mark.parametrize("capacity", [1, 10])


@either_statement
@either_capacity
async def test_a_flood_of_older_jobs_holds_nobody_up(
    store: Store, observer: Observer, capacity: int, limited: bool
) -> None:
    await backlog(observer, flood=FLOOD, small=SMALL * JOBS, partitions=SMALL)
    if limited:
        await ceiling(observer, "default", 100_000)
    partitions = SMALL + 1
    claims = await fleet(store, capacity, partitions * JOBS * 6 // 5)
    keys = [claim.partition_key for claim in claims]
    last_small = max(place for place, key in enumerate(keys) if key != "flood")
    assert sum(key != "flood" for key in keys) == SMALL * JOBS
    assert last_small <= 1.15 * partitions * JOBS
    first = {key: place for place, key in reversed(list(enumerate(keys)))}
    assert len(first) == partitions
    assert max(first.values()) <= 4 * partitions


@either_statement
@either_capacity
async def test_equal_backlogs_are_served_equally(
    store: Store, observer: Observer, capacity: int, limited: bool
) -> None:
    partitions = 100
    await backlog(observer, flood=0, small=partitions * JOBS * 2, partitions=partitions)
    if limited:
        await ceiling(observer, "default", 100_000)
    claims = await fleet(store, capacity, partitions * JOBS)
    served = Counter(claim.partition_key for claim in claims).values()
    assert len(served) == partitions
    # The index of Jain: one where all are equal, 1 / partitions where one has everything.
    assert sum(served) ** 2 / (partitions * sum(jobs * jobs for jobs in served)) >= 0.94


async def test_each_of_very_many_partitions_gets_a_turn_at_capacity_one(
    store: Store, observer: Observer
) -> None:
    await backlog(observer, flood=0, small=2 * MANY, partitions=MANY)
    served = [claim.partition_key for _ in range(MANY) for claim in await admit(store, 1)]
    assert len(set(served)) == len(served) == MANY
