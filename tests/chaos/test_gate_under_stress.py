"""Gates of several processes at once, over producers that hesitate and workers that die.

`HEADGATE_STRESS_SECONDS` makes it longer.
"""

import asyncio
import os
import sys

import asyncpg
import msgspec
import pytest

from headgate.store.gate import Gate
from headgate.store.settings import StoreSettings
from headgate.store.store import Store
from tests.chaos.gate_process import (
    BAD,
    CLASSES,
    CLOSED,
    DISPLACING,
    FREE,
    GATES,
    LIMITED,
    MIXED,
    QUEUES,
    REFUSING,
    Orders,
    Seen,
)
from tests.store.backlog import bucket, ceiling, fill, pause, quarantine, weigh
from tests.store.rows import Observer, assert_lanes, count_jobs, deadlocks

SECONDS = float(os.environ.get("HEADGATE_STRESS_SECONDS", "8"))
PROCESSES = 3
CEILING = 3
CEILINGS = {LIMITED: "queue", REFUSING: "discard", DISPLACING: "cancel_running"}
# (limit per second, burst)
# Less than is asked for, so that all of it is spent.
BUDGETS = dict(zip(CLASSES, ((5, 5), (20, 10), (2, 3)), strict=True))
WORKERS = [f"w{number}" for number in range(PROCESSES * GATES)]
STANDING = 30
# A gate reads the clock before it locks a bucket, and another may spend in between.
CLOCK_SKEW_MS = 300

_OVER = """
SELECT queue, partition_key, count(*) FROM headgate_job
WHERE state = 'running' AND queue = ANY ($1) GROUP BY 1, 2 HAVING count(*) > $2
"""
_WRONG = """
SELECT name, tokens FROM headgate_rate_bucket
WHERE tokens < 0 OR tokens > burst OR remainder < 0 OR remainder >= window_ms
"""
_STRANDED = """
SELECT count(*) FROM headgate_job j WHERE state = 'available'
AND NOT EXISTS (SELECT FROM headgate_quarantine q WHERE q.fingerprint = j.fingerprint)
"""


async def policies(store: Store, observer: Observer) -> None:
    for queue in (FREE, MIXED):
        await fill(store, STANDING, queue=queue, fingerprint=BAD, priority=5)
    await quarantine(observer, BAD)
    await fill(store, STANDING, queue=CLOSED)
    await pause(observer, CLOSED)
    for queue, mode in CEILINGS.items():
        await ceiling(observer, queue, CEILING, mode)
    await weigh(observer, LIMITED, 2)
    await weigh(observer, MIXED, 3)
    for name, (limit, burst) in BUDGETS.items():
        await bucket(observer, name, limit, burst=burst)


async def press(dsn: str, number: int) -> Seen:
    """One process under orders; what it saw."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.mutation.run", "tests.chaos.gate_process"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    own = number * GATES
    orders = Orders(dsn, seed=number, seconds=SECONDS, workers=WORKERS[own:] + WORKERS[:own])
    try:
        told, failed = await process.communicate(msgspec.json.encode(orders))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, failed.decode()
    return msgspec.json.decode(told, type=Seen)


async def upkeep(store: Store) -> None:
    while True:
        await store.upkeep.reclaim_expired(1_000)
        await store.upkeep.promote_due(1_000)
        await asyncio.sleep(0.05)


async def watch(observer: Observer, violations: list[str]) -> None:
    while True:
        for row in await observer.fetch(_OVER, list(CEILINGS), CEILING):
            violations.append(f"{row['count']} run in {row['queue']} {row['partition_key']}")
        for row in await observer.fetch(_WRONG):
            violations.append(f"{row['tokens']} tokens in {row['name']}")
        await asyncio.sleep(0.005)


@pytest.mark.timeout(SECONDS + 112)
async def test_guarantees_hold_under_stress(headgate_database: str, store: Store) -> None:
    observer = await asyncpg.connect(headgate_database)
    violations: list[str] = []
    before = await deadlocks(observer)
    await policies(store, observer)
    onlooker = await asyncpg.connect(headgate_database)
    background = [
        asyncio.create_task(upkeep(store)),
        asyncio.create_task(watch(onlooker, violations)),
    ]
    seen = await asyncio.gather(*(press(headgate_database, n) for n in range(PROCESSES)))
    for task in background:
        assert not task.done() or task.result()
        task.cancel()
    await asyncio.wait(background)
    await onlooker.close()

    assert violations == []
    assert [each for one in seen for each in one.violations] == []
    _assert_once(seen)
    _assert_within_budgets(seen)
    await assert_lanes(observer)
    standing = 3 * STANDING
    left = standing + sum(one.committed - one.deleted for one in seen)
    assert await count_jobs(observer) == left
    await _assert_all_can_be_reached(headgate_database, observer)
    assert await deadlocks(observer) == before
    await observer.close()


def _assert_once(seen: list[Seen]) -> None:
    claims = [tuple(claim) for one in seen for claim in one.claims]
    assert len(claims) > 10 * SECONDS
    assert len(set(claims)) == len(claims), "a job was claimed twice"


def _assert_within_budgets(seen: list[Seen]) -> None:
    """What was spent, one after the other, out of buckets that refill meanwhile."""
    claims = sorted(claim for one in seen for claim in one.spent)
    for name, (limit, burst) in BUDGETS.items():
        spent = [(at_ms, weight) for at_ms, rate_class, weight in claims if rate_class == name]
        assert spent
        level, refilled_at_ms = burst * 1000, spent[0][0]
        for at_ms, weight in spent:
            level = min(burst * 1000, level + (at_ms - refilled_at_ms) * limit)
            level, refilled_at_ms = level - weight * 1000, at_ms
            assert level >= -limit * CLOCK_SKEW_MS, f"{name} is overspent"


async def _assert_all_can_be_reached(dsn: str, observer: Observer) -> None:
    """Without ceilings, classes and pauses everything that waits starts, but for the quarantine."""
    for table in ("concurrency_limit", "rate_bucket", "queue_state"):
        await observer.execute(f"DELETE FROM headgate_{table}")  # noqa: S608  # a constant
    async with Store(StoreSettings(dsn=dsn)) as store:
        for worker in WORKERS:
            gate = Gate(store.gate._database)
            while await gate.admit(worker, QUEUES, 1_000, 60_000):
                pass
    assert await observer.fetchval(_STRANDED) == 0
