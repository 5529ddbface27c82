"""What is due becomes available: in the order of its due time, registered, and announced."""

import asyncio
import logging

import asyncpg
import pytest

from headgate.model.envelope import Envelope
from headgate.model.errors import InvalidRequest
from headgate.model.lifecycle import State
from headgate.store.store import Store
from tests.store.conftest import OpenStore
from tests.store.journeys import FAR, bring
from tests.store.rows import Observer, assert_lanes, deadlocks, job_row, lanes, state_of


async def waiting(store: Store, observer: Observer, count: int, *, due: bool = True) -> list[str]:
    """Scheduled jobs, the last of them due first."""
    jobs = await store.producer.enqueue(
        [
            Envelope(kind="mail", queue=f"q{number % 3}", scheduled_at_ms=FAR - number)
            for number in range(count)
        ]
    )
    if due:
        await observer.execute(
            "UPDATE headgate_job SET scheduled_at_ms = scheduled_at_ms - $1", FAR - count
        )
    return [job.id for job in jobs]


async def available(observer: Observer) -> set[str]:
    rows = await observer.fetch("SELECT ulid FROM headgate_job WHERE state = 'available'")
    return {row["ulid"] for row in rows}


async def test_the_longest_due_comes_first(store: Store, observer: Observer) -> None:
    ids = await waiting(store, observer, 5)
    for promoted in (2, 4):
        assert await store.upkeep.promote_due(2) == 2
        assert await available(observer) == set(ids[5 - promoted :])
    assert await store.upkeep.promote_due(2) == 1
    assert await store.upkeep.promote_due(2) == 0
    assert await available(observer) == set(ids)


async def test_what_is_not_due_waits(store: Store, observer: Observer) -> None:
    await waiting(store, observer, 3, due=False)
    assert await store.upkeep.promote_due(10) == 0
    assert await available(observer) == set()


async def test_asynq_5_nothing_is_early(store: Store, observer: Observer) -> None:
    [job] = await store.producer.enqueue([Envelope(kind="mail", delay_ms=150)])
    async with asyncio.timeout(10):
        promoted = 0
        while promoted == 0:
            promoted = await store.upkeep.promote_due(10)
    row = await job_row(observer, job.id)
    assert row is not None
    now = await observer.fetchval("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
    assert row["scheduled_at_ms"] == row["enqueued_at_ms"] + 150 <= now


@pytest.mark.parametrize("state", State)
async def test_only_these_two_states_become_due(
    store: Store, observer: Observer, state: State
) -> None:
    job_id = await bring(store, observer, Envelope(kind="mail"), state)
    await observer.execute("UPDATE headgate_job SET scheduled_at_ms = 1")
    promoted = await store.upkeep.promote_due(10)
    assert promoted == (state in {State.SCHEDULED, State.RETRYABLE})
    row = await job_row(observer, job_id)
    assert row is not None
    assert row["state"] == ("available" if promoted else state)
    # Its place among those that wait is that of its due time.
    assert row["scheduled_at_ms"] == 1


async def test_lanes_are_registered(store: Store, observer: Observer) -> None:
    jobs = [
        Envelope(
            kind="mail",
            queue="q",
            sticky_worker="w",
            priority=number,
            partition_key="p",
            rate_class="r",
            scheduled_at_ms=FAR,
        )
        for number in range(3)
    ]
    await store.producer.enqueue(jobs * 2)
    await observer.execute("UPDATE headgate_job SET scheduled_at_ms = 1")
    assert await store.upkeep.promote_due(100) == 6
    assert await lanes(observer) == {("q", "w", number, "p", "r") for number in range(3)}
    await assert_lanes(observer)


async def test_the_queues_are_woken(store: Store, observer: Observer) -> None:
    await waiting(store, observer, 2)
    with store.listener.subscribe() as subscription:
        async with asyncio.timeout(10):
            while "" not in await subscription.wait(10_000):
                pass
            await store.upkeep.promote_due(10)
            woken: set[str] = set()
            while woken < {"q0", "q1"}:
                woken |= await subscription.wait(10_000)
    assert woken == {"q0", "q1"}


async def test_bc_107_one_locked_row_does_not_stop_the_others(
    store: Store, observer: Observer, headgate_database: str
) -> None:
    ids = await waiting(store, observer, 500)
    other = await asyncpg.connect(headgate_database)
    async with other.transaction():
        await other.execute("SELECT FROM headgate_job WHERE ulid = $1 FOR UPDATE", ids[250])
        assert await asyncio.wait_for(store.upkeep.promote_due(1_000), 10) == 499
    await other.close()
    assert await state_of(observer, ids[250]) == "scheduled"
    assert await store.upkeep.promote_due(1_000) == 1


async def test_a_clash_does_not_stop_the_others(
    store: Store, observer: Observer, caplog: pytest.LogCaptureFixture
) -> None:
    """Keys that were unique in fewer states when the job was written."""
    await observer.execute("DROP INDEX headgate_job_unique")
    await observer.execute(
        "CREATE UNIQUE INDEX headgate_job_unique ON headgate_job (unique_key)"
        " WHERE unique_key IS NOT NULL AND unique_expires_at_ms IS NULL AND state = 'available'"
    )
    ids = await waiting(store, observer, 500)
    [live] = await store.producer.enqueue([Envelope(kind="mail")])
    await observer.execute(
        "UPDATE headgate_job SET unique_key = 'k' WHERE ulid = ANY ($1)", [ids[250], live.id]
    )
    with caplog.at_level(logging.ERROR):
        assert await store.upkeep.promote_due(1_000) == 499
        assert await state_of(observer, ids[250]) == "scheduled"
        for _ in range(3):
            assert await store.upkeep.promote_due(1_000) == 0
    [told] = caplog.messages
    assert "passed over" in told
    assert await available(observer) == {*ids, live.id} - {ids[250]}
    await assert_lanes(observer)


async def test_many_promoters_promote_each_job_once(
    open_store: OpenStore, observer: Observer
) -> None:
    stores = [open_store(pool_size=1) for _ in range(6)]
    ids = await waiting(stores[0], observer, 600)

    async def promote(store: Store) -> int:
        total = 0
        while promoted := await store.upkeep.promote_due(50):
            total += promoted
        return total

    assert sum(await asyncio.gather(*(promote(store) for store in stores))) == 600
    assert await available(observer) == set(ids)
    await assert_lanes(observer)
    for store in stores:
        await store.close()
    assert await deadlocks(observer) == 0


async def test_a_limit_is_positive(store: Store) -> None:
    with pytest.raises(InvalidRequest, match="limit must be >= 1"):
        await store.upkeep.promote_due(0)
