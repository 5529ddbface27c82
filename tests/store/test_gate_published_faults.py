"""Faults of admission that users of other queues have published, as cases for this one."""

import asyncio
import random

import asyncpg
import pytest

from headgate.model.envelope import Envelope
from headgate.model.job import Acknowledgement, JobFilter
from headgate.model.lifecycle import Outcome
from headgate.model.policy import RateClassPolicy
from headgate.store.gate import Gate
from headgate.store.joining import enqueue_in
from headgate.store.store import Store
from tests.store.backlog import admit, bucket, by, ceiling, fill, finish
from tests.store.conftest import OpenStore
from tests.store.rows import HOUR_MS, Observer
from tests.store.test_admission import explained

ROUNDS = 40
KEYS = ["*", "%", "_", "a:b", " ", "é", "\"'\\", "k" * 255]


async def running(observer: Observer) -> int:
    count: int = await observer.fetchval(
        "SELECT count(*) FROM headgate_job WHERE state = 'running'"
    )
    return count


async def lapse(observer: Observer) -> None:
    await observer.execute(
        "UPDATE headgate_job SET lease_expires_at_ms = 1 WHERE state = 'running'"
    )


async def test_bc_01_a_job_that_becomes_visible_late_breaks_no_ceiling(
    store: Store, observer: Observer, headgate_database: str
) -> None:
    await ceiling(observer, "default", 2)
    await fill(store, 1)
    other = await asyncpg.connect(headgate_database)
    transaction = other.transaction()
    await transaction.start()
    await enqueue_in(other, [Envelope(kind="mail")])
    await fill(store, 1)
    assert len(await admit(store, 5)) == 2
    await transaction.commit()
    await other.close()
    for _ in range(3):
        assert await admit(store, 5) == []
        assert await running(observer) == 2


async def test_bc_02_a_place_is_given_back_once(store: Store, observer: Observer) -> None:
    """Its worker comes back to life after the job was taken from it and given to another."""
    await ceiling(observer, "default", 1)
    await fill(store, 21)
    [stale] = await admit(store, 1)
    await lapse(observer)
    await store.upkeep.reclaim_expired(10)
    await observer.execute("UPDATE headgate_job SET scheduled_at_ms = 1 WHERE state = 'retryable'")
    await store.upkeep.promote_due(10)
    [claim] = await admit(store, 5, worker="other")
    assert claim.job_id == stale.job_id
    await finish(store, stale)
    for _ in range(20):
        assert await admit(store, 5) == []
        assert await running(observer) == 1
        await finish(store, claim)
        [claim] = await admit(store, 5)


async def test_bc_03_bc_04_a_killed_worker_keeps_its_place_until_its_lease_ends(
    store: Store, observer: Observer
) -> None:
    await ceiling(observer, "default", 1)
    await fill(store, 4)
    assert len(await admit(store, 5)) == 1
    fresh = Gate(store.gate._database)
    assert await fresh.admit("fresh", ["default"], 5, 1_000) == []
    await store.upkeep.reclaim_expired(10)
    assert await fresh.admit("fresh", ["default"], 5, 1_000) == []
    await lapse(observer)
    await store.upkeep.reclaim_expired(10)
    assert len(await fresh.admit("fresh", ["default"], 5, 1_000)) == 1
    assert await running(observer) == 1


async def test_bc_05_a_job_that_arrives_while_another_ends_is_not_missed(
    store: Store, observer: Observer, headgate_database: str
) -> None:
    await ceiling(observer, "default", 1)
    await fill(store, 1)
    [claim] = await admit(store, 1)
    dice = random.Random(5)
    producer = await asyncpg.connect(headgate_database)

    async def enqueue() -> None:
        async with producer.transaction():
            await enqueue_in(producer, [Envelope(kind="mail")])
            await asyncio.sleep(dice.random() * 0.02)

    for _ in range(ROUNDS):
        # A gate that looks while neither is visible must not spoil it for later.
        await asyncio.gather(finish(store, claim), enqueue(), admit(store, 1, "other"))
        [claim] = await admit(store, 1)
    await producer.close()


async def test_bc_06_leases_that_ended_long_ago_hold_no_place(
    store: Store, observer: Observer
) -> None:
    await ceiling(observer, "default", 3)
    await fill(store, 6)
    assert len(await admit(store, 5)) == 3
    await lapse(observer)
    assert len(await store.upkeep.reclaim_expired(1_000)) == 3
    waiting: str = await observer.fetchval(
        "SELECT ulid FROM headgate_job WHERE state = 'available' LIMIT 1"
    )
    assert (await explained(store, waiting)).detail["inflight"] == "0"
    assert len(await admit(store, 5)) == 3


async def test_bc_07_one_call_takes_no_more_than_is_left(store: Store, observer: Observer) -> None:
    await ceiling(observer, "default", 5)
    await fill(store, 23)
    assert len(await admit(store, 3)) == 3
    assert len(await admit(store, 20)) == 2


@pytest.mark.parametrize("epoch", [999, -5])
async def test_bc_08_nothing_that_is_stored_can_be_wrong_about_what_runs(
    store: Store, observer: Observer, epoch: int
) -> None:
    await ceiling(observer, "default", 2)
    await fill(store, 5)
    [claim] = await admit(store, 1)
    await observer.execute("UPDATE headgate_inflight SET epoch = $1", epoch)
    assert len(await admit(store, 5)) == 1
    await finish(store, claim)
    assert len(await admit(store, 5)) == 1
    assert await running(observer) == 2


async def test_bc_09_a_saturated_flood_at_the_head_blocks_nobody(
    store: Store, observer: Observer
) -> None:
    await ceiling(observer, "default", 1)
    await fill(store, 5_000, partition_key="a")
    assert len(await admit(store, 1)) == 1
    await fill(store, 1, partition_key="b")
    assert by("partition_key", await admit(store, 1)) == {"b": 1}


async def test_bc_10_ceilings_of_queues_do_not_add_up(store: Store, observer: Observer) -> None:
    await ceiling(observer, "x", 1)
    await ceiling(observer, "y", 3)
    await fill(store, 5, queue="x", partition_key="acme")
    await fill(store, 5, queue="y", partition_key="acme")
    assert by("queue", await admit(store, 1, "x")) == {"x": 1}
    assert by("queue", await admit(store, 20, "x", "y")) == {"y": 3}


async def test_bc_15_a_retry_of_high_priority_waits_for_its_place(
    store: Store, observer: Observer
) -> None:
    await ceiling(observer, "default", 1)
    await fill(store, 1, priority=99)
    [claim] = await admit(store, 1)
    skip = Acknowledgement(lease=claim.lease, outcome=Outcome.SKIP, error="e")
    await store.leases.acknowledge([skip])
    await fill(store, 1)
    [low] = await admit(store, 1)
    await store.control.retry(claim.job_id)
    assert await admit(store, 5) == []
    await finish(store, low)
    assert [claim.priority for claim in await admit(store, 5)] == [99]


async def test_bc_17_a_class_refills_over_midnight_and_over_days(
    store: Store, observer: Observer
) -> None:
    """A window of a day and a half, whatever the time of day."""
    policy = RateClassPolicy(limit=36, window_ms=36 * HOUR_MS)
    await store.policies.put_rate_class("api", policy)
    await observer.execute("UPDATE headgate_rate_bucket SET tokens = 0")
    await fill(store, 100, rate_class="api")
    waiting: str = await observer.fetchval("SELECT max(ulid) FROM headgate_job")
    for _ in range(40):
        await observer.execute(
            "UPDATE headgate_rate_bucket SET refilled_at_ms = refilled_at_ms - $1", HOUR_MS
        )
        assert len(await admit(store, 5)) == 1
        assert ((await explained(store, waiting)).estimated_admission_ms or 0) >= 0


async def test_bc_19_classes_are_charged_apart(store: Store, observer: Observer) -> None:
    await bucket(observer, "used", 5, window_ms=HOUR_MS)
    await bucket(observer, "full", 5, window_ms=HOUR_MS)
    await fill(store, 2, rate_class="used")
    claims = await admit(store, 2)
    await store.leases.acknowledge(
        [
            Acknowledgement(lease=claim.lease, outcome=Outcome.SUCCESS, actual_weight=9)
            for claim in claims
        ]
    )
    await fill(store, 9, rate_class="used")
    await fill(store, 9, rate_class="full")
    waiting: str = await observer.fetchval("SELECT max(ulid) FROM headgate_job")
    assert (await explained(store, waiting)).detail["tokens_available"] == "5"
    assert (await store.policies.rate_class("full")).tokens_available == 5
    assert (await store.policies.rate_class("used")).tokens_available < 0
    assert by("rate_class", await admit(store, 20)) == {"full": 5}


async def drain(store: Store, gates: int) -> list[int]:
    """Workers with a gate of their own run all jobs; how many ran whenever one started."""
    at_once = 0
    overlaps: list[int] = []
    jobs = len((await store.inspection.jobs(JobFilter(), cursor=None, limit=50)).jobs)

    async def work(number: int) -> None:
        nonlocal at_once
        gate = Gate(store.gate._database)
        while len(overlaps) < jobs:
            claims = await gate.admit(f"w{number}", ["default"], 3, 30_000)
            at_once += len(claims)
            overlaps.extend([at_once] * len(claims))
            await asyncio.sleep(0.005)
            at_once -= len(claims)
            await finish(store, *claims)

    await asyncio.gather(*(work(number) for number in range(gates)))
    return overlaps


async def test_bc_21_one_at_a_time_and_all_are_listed(store: Store, observer: Observer) -> None:
    await ceiling(observer, "default", 1)
    await fill(store, 10, partition_key="p")
    where = JobFilter(partition_key="p")
    assert len((await store.inspection.jobs(where, cursor=None, limit=50)).jobs) == 10
    assert await drain(store, gates=4) == [1] * 10


async def test_bc_26_many_workers_do_not_pass_the_check_together(
    open_store: OpenStore, observer: Observer
) -> None:
    store = open_store(gate_pool_size=8)
    await ceiling(observer, "default", 3)
    await fill(store, 24, partition_key="p")
    assert max(await drain(store, gates=8)) <= 3


async def test_bc_24_keys_of_any_characters_are_served(store: Store, observer: Observer) -> None:
    await ceiling(observer, "default", 1)
    for key in KEYS:
        await fill(store, 2, partition_key=key)
    claims = [claim for _ in range(len(KEYS)) for claim in await admit(store, 1)]
    assert by("partition_key", claims) == dict.fromkeys(KEYS, 1)
    for key in KEYS:
        page = await store.inspection.jobs(JobFilter(partition_key=key), cursor=None, limit=9)
        assert len(page.jobs) == 2
