"""Counts: exact in every snapshot, whatever runs meanwhile and however little is folded."""

import asyncio
import random
from collections import Counter
from typing import Any

import asyncpg
import pytest

from headgate.model.envelope import Envelope
from headgate.model.errors import InvalidRequest
from headgate.model.job import Acknowledgement
from headgate.model.lifecycle import LIVE, Outcome, State
from headgate.model.policy import ConcurrencyLimit
from headgate.store.joining import enqueue_in
from headgate.store.leases import Leases
from headgate.store.store import Store
from tests.store.conftest import OpenStore
from tests.store.counts import READ_PER_PARTITION, READ_PER_QUEUE, assert_exact
from tests.store.journeys import bring
from tests.store.rows import HOUR_MS, Observer, deadlocks, now_ms, start

MINUTE_MS = 60_000


async def fold_all(store: Store, limit: int = 1_000) -> None:
    while await store.upkeep.fold_ledger(limit):
        pass


async def ledger_rows(observer: Observer) -> int:
    count: int = await observer.fetchval("SELECT count(*) FROM headgate_ledger")
    return count


def random_envelope() -> Envelope:
    return Envelope(
        kind="mail",
        queue=random.choice("abc"),
        partition_key=random.choice(["", "p", "q"]),
        retention_ms=random.choice([0, HOUR_MS]),
        pending=random.random() < 0.1,
    )


class Traffic:
    """Producers, workers, and an application that changes its mind."""

    def __init__(self, store: Store, dsn: str) -> None:
        self.store = store
        self.dsn = dsn
        self.over = False

    async def produce(self) -> None:
        for _ in range(15):
            size = random.randint(1, 30)
            await self.store.producer.enqueue([random_envelope() for _ in range(size)])

    async def roll_back(self) -> None:
        connection = await asyncpg.connect(self.dsn)
        for _ in range(10):
            transaction = connection.transaction()
            await transaction.start()
            await enqueue_in(connection, [random_envelope() for _ in range(20)])
            await connection.execute(
                "DELETE FROM headgate_job WHERE id IN (SELECT id FROM headgate_job WHERE id % 7 = 0"
                " AND state = 'available' ORDER BY id FOR UPDATE SKIP LOCKED)"
            )
            await transaction.rollback()
        await connection.close()

    async def work(self, queue: str) -> None:
        connection = await asyncpg.connect(self.dsn)
        for _ in range(15):
            rows = await connection.fetch(
                "SELECT ulid FROM headgate_job WHERE state = 'available' AND queue = $1"
                " ORDER BY id LIMIT 20",
                queue,
            )
            leases = await start(connection, [row["ulid"] for row in rows])
            await self.store.leases.acknowledge(
                [
                    Acknowledgement(lease=lease, outcome=random.choice(list(Outcome)), delay_ms=1)
                    for lease in leases
                ]
            )
            await self.store.upkeep.promote_due(10)
        await connection.close()

    async def fold(self) -> None:
        while not self.over:
            await self.store.upkeep.fold_ledger(random.randint(1, 40))

    async def watch(self, observer: Observer) -> None:
        while not self.over:
            await assert_exact(observer)


async def test_counts_are_exact_while_everything_runs(
    open_store: OpenStore, observer: Observer, headgate_database: str
) -> None:
    store = open_store(pool_size=12)
    traffic = Traffic(store, headgate_database)
    background = [asyncio.create_task(traffic.fold()) for _ in range(2)]
    background.append(asyncio.create_task(traffic.watch(observer)))
    await asyncio.gather(
        traffic.produce(),
        traffic.produce(),
        traffic.roll_back(),
        *(traffic.work(queue) for queue in "abc"),
    )
    traffic.over = True
    await asyncio.gather(*background)
    await assert_exact(observer)
    await fold_all(store)
    assert await ledger_rows(observer) == 0
    await assert_exact(observer)
    assert await observer.fetchval("SELECT count(*) FROM headgate_job") > 0
    await store.close()
    assert await deadlocks(observer) == 0


async def test_workers_of_one_queue_wait_for_nobody_elses_counts(
    open_store: OpenStore, observer: Observer
) -> None:
    """Sixteen of them under a ceiling, beside an acknowledgement that is not committed yet."""
    store = open_store(pool_size=20, gate_pool_size=16, lock_timeout_ms=500)
    await store.policies.put_concurrency_limit(
        ConcurrencyLimit(name="ceiling", queue="mail", max_concurrent=1_000, on_saturated="queue")
    )
    await store.producer.enqueue([Envelope(kind="mail", queue="mail") for _ in range(200)])
    slow, *others = await store.gate.admit("slow", ["mail"], 16, HOUR_MS)

    async def work(number: int) -> int:
        await store.leases.acknowledge(
            [Acknowledgement(lease=others[number % 15].lease, outcome=Outcome.SUCCESS)]
        )
        done = 0
        while claims := await store.gate.admit(f"w{number}", ["mail"], 4, HOUR_MS):
            await store.leases.acknowledge(
                [Acknowledgement(lease=claim.lease, outcome=Outcome.SUCCESS) for claim in claims]
            )
            done += len(claims)
        return done

    async with store.hot_path.transaction() as session:
        report = Acknowledgement(lease=slow.lease, outcome=Outcome.SUCCESS)
        assert [each.state for each in await Leases(session).acknowledge([report])] == ["deleted"]
        done = await asyncio.gather(*(work(number) for number in range(16)))
        assert sum(done) == 200 - 16
    await assert_exact(observer)
    assert await observer.fetchval("SELECT count(*) FROM headgate_job") == 0


async def test_a_fold_takes_no_more_than_its_limit(store: Store, observer: Observer) -> None:
    for number in range(5):
        await store.producer.enqueue([Envelope(kind="mail", queue=f"q{number}")])
    assert [await store.upkeep.fold_ledger(2) for _ in range(4)] == [2, 2, 1, 0]
    await assert_exact(observer)
    with pytest.raises(InvalidRequest, match="limit must be >= 1"):
        await store.upkeep.fold_ledger(0)


async def test_a_fold_leaves_what_another_one_is_folding(store: Store, observer: Observer) -> None:
    for queue in ("a", "b", "c"):
        await store.producer.enqueue([Envelope(kind="mail", queue=queue)])
    async with observer.transaction():
        await observer.execute("SELECT FROM headgate_ledger WHERE queue = 'b' FOR UPDATE")
        assert await asyncio.wait_for(store.upkeep.fold_ledger(10), 5) == 2
    assert await store.upkeep.fold_ledger(10) == 1
    await assert_exact(observer)


async def test_partitions_without_live_jobs_leave_no_rows(store: Store, observer: Observer) -> None:
    for end in (State.COMPLETED, State.ARCHIVED, State.AVAILABLE):
        await bring(store, observer, Envelope(kind="mail", partition_key=end), end)
        await fold_all(store, limit=1)
    rows = await observer.fetch("SELECT partition_key, state, n FROM headgate_partition_count")
    assert [tuple(row) for row in rows] == [("available", "available", 1)]
    await observer.execute("DELETE FROM headgate_job")
    await fold_all(store)
    assert await observer.fetch("SELECT * FROM headgate_partition_count") == []
    await assert_exact(observer)


async def test_states_without_jobs_leave_no_rows(store: Store, observer: Observer) -> None:
    for queue in ("a", "b"):
        await bring(store, observer, Envelope(kind="mail", queue=queue), State.RUNNING)
        await fold_all(store, limit=1)
    rows = await observer.fetch("SELECT queue, state FROM headgate_queue_count ORDER BY queue")
    assert [tuple(row) for row in rows] == [("a", "running"), ("b", "running")]
    await observer.execute("DELETE FROM headgate_job WHERE queue = 'a'")
    await fold_all(store)
    rows = await observer.fetch("SELECT queue, state, n FROM headgate_queue_count")
    assert [tuple(row) for row in rows] == [("b", "running", 1)]
    await assert_exact(observer)


@pytest.mark.parametrize("state", State)
async def test_every_state_is_counted(store: Store, observer: Observer, state: State) -> None:
    await bring(store, observer, Envelope(kind="mail", queue="q", partition_key="p"), state)
    await assert_exact(observer)
    await fold_all(store)
    await assert_exact(observer)
    rows = await observer.fetch("SELECT state, n FROM headgate_queue_count WHERE n <> 0")
    assert [tuple(row) for row in rows] == [(state, 1)]
    live = await observer.fetchval("SELECT count(*) FROM headgate_partition_count")
    assert live == int(state in LIVE)


async def test_a_statement_of_many_jobs_appends_few_rows(store: Store, observer: Observer) -> None:
    jobs = await store.producer.enqueue(
        [Envelope(kind="mail", partition_key=str(number % 2)) for number in range(1_000)]
    )
    assert await ledger_rows(observer) == 2
    leases = await start(observer, [job.id for job in jobs])
    assert await ledger_rows(observer) == 6
    await store.leases.acknowledge(
        [Acknowledgement(lease=lease, outcome=Outcome.SUCCESS) for lease in leases]
    )
    # Two of the deletion and two of the completions.
    assert await ledger_rows(observer) == 10


async def test_what_changes_no_count_appends_nothing(store: Store, observer: Observer) -> None:
    [job] = await store.producer.enqueue([Envelope(kind="mail")])
    [lease] = await start(observer, [job.id])
    before = await ledger_rows(observer)
    await store.leases.renew([lease], HOUR_MS)
    await observer.execute("UPDATE headgate_job SET progress_message = NULL, payload = '\\x01'")
    await store.upkeep.reclaim_expired(10)
    await store.upkeep.promote_due(10)
    assert await ledger_rows(observer) == before


async def flow(observer: Observer, table: str) -> Counter[tuple[Any, ...]]:
    """Arrivals and completions per key; the minute is checked here."""
    queries = {
        "queue": "SELECT queue, bucket_ms, arrived, completed FROM headgate_queue_counter",
        "partition": "SELECT queue, partition_key, bucket_ms, arrived, completed"
        " FROM headgate_partition_counter",
    }
    total: Counter[tuple[Any, ...]] = Counter()
    now = await now_ms(observer)
    for *key, bucket_ms, arrived, completed in await observer.fetch(queries[table]):
        assert bucket_ms % MINUTE_MS == 0
        assert now - 2 * MINUTE_MS < bucket_ms <= now
        total[(*key, "arrived")] += arrived
        total[(*key, "completed")] += completed
    return +total


async def test_arrivals_and_completions_by_minute(store: Store, observer: Observer) -> None:
    for end in (
        State.COMPLETED,
        State.COMPLETED,
        State.ARCHIVED,
        State.RETRYABLE,
        State.PENDING,
        State.SCHEDULED,
    ):
        await bring(store, observer, Envelope(kind="mail", queue="q", partition_key="p"), end)
    # Coming back is no arrival.
    await observer.execute("UPDATE headgate_job SET scheduled_at_ms = 1")
    await store.upkeep.promote_due(10)
    await fold_all(store, limit=2)
    assert await flow(observer, "queue") == {("q", "arrived"): 6, ("q", "completed"): 2}
    assert await flow(observer, "partition") == {
        ("q", "p", "arrived"): 6,
        ("q", "p", "completed"): 2,
    }


async def test_truncation_clears_the_counts_and_keeps_the_flow(
    store: Store, observer: Observer
) -> None:
    await store.producer.enqueue([Envelope(kind="mail")] * 3)
    await fold_all(store)
    await store.producer.enqueue([Envelope(kind="mail")] * 3)
    await observer.execute("TRUNCATE headgate_job CASCADE")
    assert await observer.fetch(READ_PER_QUEUE) == []
    assert await observer.fetch(READ_PER_PARTITION) == []
    assert await flow(observer, "queue") == {("default", "arrived"): 3}
    await store.producer.enqueue([Envelope(kind="mail")])
    await fold_all(store)
    await assert_exact(observer)
