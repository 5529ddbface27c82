"""Many producers at once, on sessions of their own: nobody errs, nobody waits for nothing."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from headgate.model.envelope import Envelope
from headgate.model.errors import DuplicateJob, StoreUnavailable
from headgate.model.job import Acknowledgement
from headgate.model.lifecycle import Outcome
from headgate.store.joining import enqueue_in
from headgate.store.store import Store
from tests.store.conftest import OpenStore
from tests.store.rows import HOUR_MS, Observer, count_jobs, deadlocks, start
from tests.store.waiting import until

_WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND wait_event_type = 'Lock'"
)


@pytest.mark.parametrize("limit", [None, 1])
@pytest.mark.parametrize("key", [None, b"k"])
async def test_identical_replays_of_an_id_never_conflict(
    open_store: OpenStore, observer: Observer, limit: int | None, key: bytes | None
) -> None:
    store = open_store(pool_size=16)
    await observer.execute("INSERT INTO headgate_enqueue_policy VALUES ('default', $1)", limit)
    for number in range(6):
        envelope = Envelope(kind="mail", id=f"id{number}", unique_key=key)
        results = await asyncio.gather(*(store.producer.enqueue([envelope]) for _ in range(16)))
        assert {job.id for [job] in results} == {f"id{number}"}
        assert await count_jobs(observer) == 1
        await observer.execute("DELETE FROM headgate_job")


async def test_of_different_jobs_under_one_id_one_wins(
    open_store: OpenStore, observer: Observer
) -> None:
    store = open_store(pool_size=16)
    results = await asyncio.gather(
        *(store.producer.enqueue([Envelope(kind=f"k{n}", id="one")]) for n in range(16)),
        return_exceptions=True,
    )
    errors = [result for result in results if isinstance(result, BaseException)]
    assert {str(error) for error in errors} == {"id conflict: job one"}
    assert len(errors) == 15
    assert await count_jobs(observer) == 1


async def test_a_batch_that_loses_in_part_is_written_once(
    store: Store, observer: Observer, headgate_database: str
) -> None:
    await observer.execute("INSERT INTO headgate_enqueue_policy VALUES ('default', 100)")
    other = await asyncpg.connect(headgate_database)
    async with other.transaction():
        await enqueue_in(other, [Envelope(kind="mail", id="one")])
        batch = [Envelope(kind="mail"), Envelope(kind="mail", id="one"), Envelope(kind="mail")]
        enqueueing = asyncio.create_task(store.producer.enqueue(batch))
        await until(lambda: observer.fetchval(_WAITING))
    await other.close()
    jobs = await enqueueing
    assert jobs[1].id == "one"
    rows = await observer.fetch("SELECT ulid FROM headgate_job")
    assert {row["ulid"] for row in rows} == {job.id for job in jobs}


async def test_bc_44_one_key_while_its_holder_comes_and_goes(
    open_store: OpenStore, observer: Observer
) -> None:
    store = open_store(pool_size=25)
    envelope = Envelope(kind="mail", unique_key=b"k")
    created: set[str] = set()
    refused: set[str] = set()
    most_alive = 0

    async def produce() -> None:
        for _ in range(8):
            try:
                [job] = await store.producer.enqueue([envelope])
            except DuplicateJob as duplicate:
                refused.add(duplicate.existing_id)
            else:
                created.add(job.id)

    async def move() -> None:
        """Takes whoever holds the key through running to one end after the other."""
        nonlocal most_alive
        turn = 0
        while True:
            rows = await observer.fetch("SELECT ulid FROM headgate_job WHERE state = 'available'")
            most_alive = max(most_alive, len(rows))
            for [job_id] in rows:
                [lease] = await start(observer, [job_id])
                turn += 1
                end = (Outcome.SUCCESS, Outcome.SKIP, Outcome.RATE_LIMITED)[turn % 3]
                await store.leases.acknowledge([Acknowledgement(lease=lease, outcome=end)])
            await asyncio.sleep(0)

    moving = asyncio.create_task(move())
    await asyncio.gather(*(produce() for _ in range(50)))
    moving.cancel()
    assert most_alive == 1
    assert len(created) > 1
    assert refused
    assert refused <= created


@pytest.mark.parametrize("what", ["queues", "lanes", "keys", "ids"])
async def test_batches_in_opposite_order_never_deadlock(
    open_store: OpenStore, observer: Observer, what: str
) -> None:
    store = open_store(pool_size=4)
    if what == "queues":
        await observer.execute(
            "INSERT INTO headgate_enqueue_policy"
            " SELECT 'q' || n, 1000000 FROM generate_series(0, 299) AS n"
        )

    def envelope(turn: int, number: int) -> Envelope:
        name = f"{turn}-{number}"
        if what == "queues":
            return Envelope(kind="mail", queue=f"q{number}")
        if what == "lanes":
            return Envelope(kind="mail", queue=name, partition_key=name, priority=number)
        if what == "keys":
            return Envelope(kind="mail", unique_key=name.encode())
        return Envelope(kind="mail", id=name)

    for turn in range(5):
        forward = [envelope(turn, number) for number in range(300)]
        results = await asyncio.gather(
            *(store.producer.enqueue(batch) for batch in (forward, forward[::-1]) * 2),
            return_exceptions=True,
        )
        errors = {type(result) for result in results if isinstance(result, BaseException)}
        assert errors <= ({DuplicateJob} if what == "keys" else set())
    await store.close()
    assert await deadlocks(observer) == 0


@pytest.fixture(params=["a lane with jobs", "a new lane"])
async def open_transaction(
    request: pytest.FixtureRequest, headgate_database: str, store: Store
) -> AsyncIterator[Observer]:
    """An application's transaction that has enqueued and stays open."""
    if request.param == "a lane with jobs":
        await store.producer.enqueue([Envelope(kind="mail")])
    connection = await asyncpg.connect(headgate_database)
    transaction = connection.transaction()
    await transaction.start()
    await enqueue_in(connection, [Envelope(kind="mail", id="open", unique_key=b"k")])
    yield connection
    await transaction.rollback()
    await connection.close()


@pytest.mark.usefixtures("open_transaction")
async def test_an_open_producer_holds_up_nobody(open_store: OpenStore, observer: Observer) -> None:
    impatient = open_store(lock_timeout_ms=200)
    [job] = await impatient.producer.enqueue([Envelope(kind="mail")])
    await impatient.producer.enqueue(
        [Envelope(kind="mail", unique_key=b"%d" % n) for n in range(3)]
    )
    await impatient.producer.enqueue([Envelope(kind="mail", tags=("t",), delay_ms=1)])
    claims = await impatient.gate.admit("worker", ["default"], 10, HOUR_MS)
    assert job.id in [claim.job_id for claim in claims]
    assert await impatient.leases.renew([claim.lease for claim in claims], HOUR_MS) == []
    for outcome in (Outcome.RATE_LIMITED, Outcome.SUCCESS):
        settlements = await impatient.leases.acknowledge(
            [Acknowledgement(lease=claim.lease, outcome=outcome) for claim in claims]
        )
        assert None not in [settlement.state for settlement in settlements]
        claims = await impatient.gate.admit("worker", ["default"], 10, HOUR_MS)
    assert await impatient.upkeep.fold_ledger(1_000) > 0


@pytest.mark.usefixtures("open_transaction")
async def test_only_the_same_id_or_key_waits(open_store: OpenStore) -> None:
    impatient = open_store(lock_timeout_ms=200)
    for same in (Envelope(kind="mail", id="open"), Envelope(kind="mail", unique_key=b"k")):
        with pytest.raises(StoreUnavailable, match="lock timed out"):
            await impatient.producer.enqueue([same])
