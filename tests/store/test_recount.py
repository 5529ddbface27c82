"""Counting again: exact, whatever was wrong, and whatever goes on meanwhile."""

import asyncio

import pytest

from headgate.model.envelope import Envelope
from headgate.model.job import Acknowledgement
from headgate.model.lifecycle import Outcome
from headgate.queries import recount as recount_queries
from headgate.store import recount as recount_store
from headgate.store.recount import Recounted
from headgate.store.store import Store
from tests.store.backlog import admit, fill, someone_waits
from tests.store.counts import assert_exact
from tests.store.rows import HOUR_MS, Observer
from tests.store.test_ledger import fold_all

# As a restore without triggers leaves it, in several ways at once.
WRONG = (
    "UPDATE headgate_queue_count SET n = n + 5 WHERE queue = 'a'",
    "DELETE FROM headgate_queue_count WHERE queue = 'z'",
    "UPDATE headgate_partition_count SET n = 0 WHERE partition_key = 'p'",
    "INSERT INTO headgate_partition_count VALUES ('gone', 'p', 'available', 9)",
    "INSERT INTO headgate_queue_count VALUES ('gone', 'available', 9)",
    "ALTER TABLE headgate_job DISABLE TRIGGER USER",
    "DELETE FROM headgate_job WHERE id IN (SELECT id FROM headgate_job LIMIT 3)",
    "ALTER TABLE headgate_job ENABLE TRIGGER USER",
    "INSERT INTO headgate_ledger (queue, partition_key, state, n, bucket_ms)"
    " VALUES ('a', 'p', 'running', 7, 0)",
)


async def make_jobs(store: Store) -> None:
    for queue in ("a", "z"):
        for key in ("p", "q"):
            await fill(store, 7, queue=queue, partition_key=key, retention_ms=HOUR_MS)
    claims = await admit(store, 9, "a", "z")
    await store.leases.acknowledge(
        [Acknowledgement(lease=claim.lease, outcome=Outcome.SUCCESS) for claim in claims[:4]]
    )


async def test_what_is_right_stays(store: Store, observer: Observer) -> None:
    await make_jobs(store)
    assert await store.recount.run() == Recounted(28, 0, 0)
    await assert_exact(observer)


@pytest.mark.parametrize("folded", [False, True])
async def test_whatever_is_wrong_is_corrected(
    store: Store, observer: Observer, folded: bool
) -> None:
    await make_jobs(store)
    if folded:
        await fold_all(store)
    for statement in WRONG:
        await observer.execute(statement)
    counted = await store.recount.run()
    assert counted.jobs == 25
    assert counted.queues > 0
    assert counted.partitions > 0
    await assert_exact(observer)
    zero = "SELECT count(*) FROM headgate_partition_count WHERE queue = 'gone'"
    assert await observer.fetchval(zero) == 0
    assert await store.recount.run() == Recounted(25, 0, 0)


async def test_windows_add_up(
    store: Store, observer: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recount_queries, "WINDOW", 4)
    monkeypatch.setattr(recount_store, "WINDOW", 4)
    monkeypatch.setattr(recount_store, "_BATCH", 2)
    for build in (recount_queries.count_window, recount_queries.partition_counts):
        build.cache_clear()
    try:
        await make_jobs(store)
        await fold_all(store)
        await observer.execute("DELETE FROM headgate_queue_count")
        await observer.execute("UPDATE headgate_partition_count SET n = n + 1")
        assert (await store.recount.run()).jobs == 28
        await assert_exact(observer)
    finally:
        monkeypatch.undo()
        for build in (recount_queries.count_window, recount_queries.partition_counts):
            build.cache_clear()


async def test_it_is_exact_while_everything_goes_on(store: Store, observer: Observer) -> None:
    await fill(store, 200, retention_ms=HOUR_MS)
    await fold_all(store)
    await observer.execute("UPDATE headgate_queue_count SET n = n + 50")
    await observer.execute("UPDATE headgate_partition_count SET n = n - 50")
    stop = asyncio.Event()

    async def enqueue() -> None:
        while not stop.is_set():
            await store.producer.enqueue([Envelope(kind="mail", partition_key="new")] * 3)

    async def work() -> None:
        while not stop.is_set():
            claims = await admit(store, 5)
            await store.leases.acknowledge(
                [Acknowledgement(lease=claim.lease, outcome=Outcome.SUCCESS) for claim in claims]
            )

    async def fold() -> None:
        while not stop.is_set():
            await store.upkeep.fold_ledger(20)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        for each in (enqueue, work, fold):
            group.create_task(each())
        found = [await store.recount.run() for _ in range(5)]
        stop.set()
    assert found[0].queues == 1
    assert found[0].partitions == 1
    assert [each.queues + each.partitions for each in found[1:]] == [0] * 4
    await assert_exact(observer)


async def test_two_at_once_correct_once(store: Store, observer: Observer) -> None:
    await fill(store, 5)
    await fold_all(store)
    await observer.execute("UPDATE headgate_queue_count SET n = 500")
    async with observer.transaction():
        await observer.execute("SELECT FROM headgate_queue_count FOR UPDATE")
        both = asyncio.gather(store.recount.run(), store.recount.run())
        await someone_waits(observer)
    assert sorted(each.queues for each in await both) == [0, 1]
    await assert_exact(observer)
