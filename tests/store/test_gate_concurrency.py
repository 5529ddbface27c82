"""Many gates at once: nothing is started twice, and nothing is left behind."""

import asyncio

import pytest

from headgate.model.job import Claim
from headgate.store.gate import Gate
from tests.store.backlog import fill
from tests.store.conftest import OpenStore
from tests.store.rows import Observer, count_jobs

WORKERS = 8


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
