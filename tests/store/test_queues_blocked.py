"""How many waiting jobs of a queue are held by what."""

import random
from collections import Counter
from typing import Any

import pytest

from headgate.model.policy import ConcurrencyLimit
from headgate.model.queue import BlockedJobs, BlockReasons
from headgate.queries.blocked import WINDOW
from headgate.store.store import Store
from tests.store.backlog import bucket, fill, quarantine
from tests.store.rows import HOUR_MS, Observer
from tests.store.test_admission import beat, explained, limit_queue, one
from tests.store.test_admission_gate import QUEUES, make_backlog, make_policies
from tests.store.test_queues import fold

SOON_MS = 4_000_000_000_000


async def blocked(store: Store, queue: str = "q") -> BlockedJobs:
    return await store.queues.blocked(queue)


def held(waiting: int, *, live_workers: int = 0, **reasons: int) -> BlockedJobs:
    return BlockedJobs(
        queue="q",
        waiting=waiting,
        reasons=BlockReasons(**reasons),
        live_workers=live_workers,
        approximate=False,
    )


@pytest.mark.parametrize("queue", ["nobody's", "", "a\0"])
async def test_nothing_waits(store: Store, queue: str) -> None:
    found = await blocked(store, queue)
    assert (found.queue, found.waiting, found.reasons) == (queue, 0, BlockReasons())


async def run(observer: Observer, store: Store, count: int, partition_key: str) -> None:
    await fill(store, count, queue="q", partition_key=partition_key)
    await observer.execute(
        "UPDATE headgate_job SET state = 'running', lease_id = 'lease'"
        " WHERE partition_key = $1 AND state = 'available'",
        partition_key,
    )


async def test_each_job_by_its_first_reason(store: Store, observer: Observer) -> None:
    await run(observer, store, 2, "full")
    await fill(store, 10, queue="q")
    await fill(store, 3, queue="q", scheduled_at_ms=SOON_MS)
    await fill(store, 4, queue="q", pending=True)
    await fill(store, 5, queue="q", partition_key="full")
    await fill(store, 6, queue="q", rate_class="smtp", weight=2, partition_key="full")
    await fill(store, 7, queue="q", rate_class="smtp", weight=1)
    await fill(store, 8, queue="q", rate_class="paused")
    await fill(store, 9, queue="q", rate_class="unknown")
    await fill(store, 11, queue="q", fingerprint="f", rate_class="paused")
    await fill(store, 12, queue="q", sticky_worker="dead")
    await fill(store, 13, queue="q", sticky_worker="alive")
    await fill(store, 14, queue="other", rate_class="paused")
    await quarantine(observer, "f")
    await bucket(observer, "smtp", 5, window_ms=HOUR_MS, tokens=1)
    await bucket(observer, "paused", 5, window_ms=HOUR_MS, paused=True)
    await limit_queue(store, 2)
    await store.workers.heartbeat(beat("dead", "q"))
    await observer.execute("UPDATE headgate_worker SET heartbeat_at_ms = 1")
    await store.workers.heartbeat(beat("alive", "q"))
    await store.workers.heartbeat(beat("busy", "other", "q"))
    await store.workers.heartbeat(beat("elsewhere", "other"))
    expected = held(
        84,
        schedule=3,
        quarantine=11,
        rate_class=6 + 8,
        concurrency_limit=5,
        sticky_worker=12,
        live_workers=2,
    )
    assert await blocked(store) == expected
    await fold(store)
    assert await blocked(store) == expected
    await limit_queue(store, 2, "cancel_running")
    assert (await blocked(store)).reasons.concurrency_limit == 0
    await store.queues.pause("q")
    assert await blocked(store) == held(84, schedule=3, queue_paused=81, live_workers=2)


async def test_jobs_that_wait_for_another_attempt(store: Store, observer: Observer) -> None:
    await fill(store, 3, queue="q")
    await observer.execute("UPDATE headgate_job SET state = 'retryable'")
    assert await blocked(store) == held(3, schedule=3)


@pytest.mark.parametrize("folded", [False, True])
async def test_the_oldest_ones_are_asked(store: Store, observer: Observer, folded: bool) -> None:
    await bucket(observer, "smtp", 5, window_ms=HOUR_MS, tokens=0)
    await fill(store, WINDOW, queue="q", rate_class="smtp")
    if folded:
        await fold(store)
    assert await blocked(store) == held(WINDOW, rate_class=WINDOW)
    await fill(store, 1, queue="q", rate_class="smtp")
    found = await blocked(store)
    assert (found.waiting, found.reasons.rate_class, found.approximate) == (
        WINDOW + 1,
        WINDOW,
        True,
    )
    await store.queues.pause("q")
    found = await blocked(store)
    assert (found.reasons.queue_paused, found.approximate) == (WINDOW + 1, False)


@pytest.mark.parametrize("seed", range(6))
async def test_the_reasons_are_those_of_each_job(
    store: Store, observer: Observer, seed: int
) -> None:
    dice = random.Random(seed)
    waiting = await make_backlog(store, observer, dice)
    await make_policies(store, observer, dice)
    reasons: dict[str, Counter[Any]] = {queue: Counter() for queue in QUEUES}
    for job_id in waiting:
        job = await store.inspection.job(job_id)
        assert job is not None
        reasons[job.queue][(await explained(store, job_id)).blocked_by] += 1
    for queue, expected in reasons.items():
        found = await blocked(store, queue)
        assert found.waiting == expected.total()
        expected.pop(None, None)
        assert found.reasons == BlockReasons(**expected), queue


async def test_a_partition_is_full_by_the_limit_of_its_own_queue(
    store: Store, observer: Observer
) -> None:
    await run(observer, store, 2, "p")
    await one(store, partition_key="p")
    await store.policies.put_concurrency_limit(
        ConcurrencyLimit(name="o", queue="other", max_concurrent=1, on_saturated="queue")
    )
    assert await blocked(store) == held(1)
    await limit_queue(store, 3)
    assert await blocked(store) == held(1)
    await limit_queue(store, 1)
    assert await blocked(store) == held(1, concurrency_limit=1)
