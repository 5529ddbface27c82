"""Evictions: jobs go when their time is over, not earlier, and not those that must stay."""

import asyncio
from typing import Any

import pytest

from headgate.model.envelope import Envelope
from headgate.model.errors import DuplicateJob, InvalidRequest
from headgate.model.lifecycle import State
from headgate.model.retention import Evicted
from headgate.store.store import Store
from tests.store.conftest import OpenStore
from tests.store.journeys import bring
from tests.store.races import somebody
from tests.store.rows import HOUR_MS, Observer, deadlocks, job_row, state_of

DAY_MS = 24 * HOUR_MS
ENDED = (State.COMPLETED, State.ARCHIVED, State.CANCELLED, State.UNDECODABLE)
LETTERS = (State.ARCHIVED, State.CANCELLED, State.UNDECODABLE)


async def end_ago(observer: Observer, ago_ms: int, **values: Any) -> None:
    """Every job ended so long ago."""
    await observer.execute(
        "UPDATE headgate_job SET finalized_at_ms ="
        " (extract(epoch from clock_timestamp()) * 1000)::bigint - $1",
        ago_ms,
    )
    if "retention_ms" in values:
        await observer.execute("UPDATE headgate_job SET retention_ms = $1", values["retention_ms"])


async def ended(store: Store, observer: Observer, count: int, **fields: Any) -> list[str]:
    """Archived jobs whose own retention of a second is long over."""
    jobs = await store.producer.enqueue(
        [Envelope(**{"kind": "mail", "retention_ms": 1_000, **fields}) for _ in range(count)]
    )
    ids = [job.id for job in jobs]
    await observer.execute(
        "UPDATE headgate_job SET state = 'archived', finalized_at_ms = 1 WHERE ulid = ANY($1)", ids
    )
    return ids


class TestOwnRetention:
    @pytest.mark.parametrize("state", State)
    async def test_states(self, store: Store, observer: Observer, state: State) -> None:
        job_id = await bring(store, observer, Envelope(kind="mail", queue="q"), state)
        await end_ago(observer, 2_000, retention_ms=1_000)
        evicted = await store.retention.evict_retained(10)
        if state in ENDED:
            assert evicted == [Evicted(job_id, "mail", "q", state, archived=False)]
            assert await job_row(observer, job_id) is None
        else:
            assert evicted == []
            assert await state_of(observer, job_id) == state

    async def test_not_before_its_time(self, store: Store, observer: Observer) -> None:
        job_id = await bring(store, observer, Envelope(kind="mail"), State.ARCHIVED)
        await end_ago(observer, 1_000, retention_ms=60_000)
        assert await store.retention.evict_retained(10) == []
        await end_ago(observer, 60_000, retention_ms=60_000)
        [evicted] = await store.retention.evict_retained(10)
        assert evicted.job_id == job_id

    async def test_bounded_and_the_longest_over_first(
        self, store: Store, observer: Observer
    ) -> None:
        ids = await ended(store, observer, 5)
        await observer.execute("UPDATE headgate_job SET finalized_at_ms = 100 - id")
        taken = [
            [evicted.job_id for evicted in await store.retention.evict_retained(2)]
            for _ in range(4)
        ]
        assert [set(batch) for batch in taken] == [set(ids[3:]), set(ids[1:3]), {ids[0]}, set()]
        with pytest.raises(InvalidRequest, match="limit must be >= 1"):
            await store.retention.evict_retained(0)

    async def test_what_somebody_holds_is_passed_over(
        self, store: Store, observer: Observer, headgate_database: str
    ) -> None:
        ids = await ended(store, observer, 3)
        async with somebody(headgate_database) as other:
            await other.execute("SELECT FROM headgate_job WHERE ulid = $1 FOR UPDATE", ids[0])
            assert len(await asyncio.wait_for(store.retention.evict_retained(10), 10)) == 2
        assert len(await store.retention.evict_retained(10)) == 1

    async def test_a_job_that_is_retried_meanwhile_stays(
        self, store: Store, observer: Observer, headgate_database: str
    ) -> None:
        [job_id] = await ended(store, observer, 1)
        async with somebody(headgate_database) as other:
            await other.execute("UPDATE headgate_job SET state = 'available'")
            assert await asyncio.wait_for(store.retention.evict_retained(10), 10) == []
        assert await store.retention.evict_retained(10) == []
        assert await state_of(observer, job_id) == "available"

    async def test_tags_and_keys_go_with_the_job(self, store: Store, observer: Observer) -> None:
        job = Envelope(kind="mail", unique_key=b"k", tags=("a",), id="j", retention_ms=1_000)
        await store.producer.enqueue([job])
        await observer.execute("UPDATE headgate_job SET state = 'archived', finalized_at_ms = 1")
        await store.retention.evict_retained(10)
        assert await observer.fetchval("SELECT count(*) FROM headgate_job_tag") == 0
        # Its id and its key are free.
        await store.producer.enqueue([job])

    async def test_many_processes_evict_each_job_once(
        self, open_store: OpenStore, observer: Observer
    ) -> None:
        stores = [open_store(pool_size=1) for _ in range(4)]
        ids = await ended(stores[0], observer, 300)

        async def evict(store: Store) -> list[str]:
            gone: list[str] = []
            for _ in range(30):
                gone += [evicted.job_id for evicted in await store.retention.evict_retained(20)]
            return gone

        gone = [
            job_id
            for found in await asyncio.gather(*(evict(store) for store in stores))
            for job_id in found
        ]
        assert sorted(gone) == sorted(ids)
        for store in stores:
            await store.close()
        assert await deadlocks(observer) == 0


class TestDeadLetters:
    @pytest.mark.parametrize("state", State)
    async def test_states(self, store: Store, observer: Observer, state: State) -> None:
        job_id = await bring(store, observer, Envelope(kind="mail"), state)
        await end_ago(observer, 2 * DAY_MS, retention_ms=0)
        evicted = await store.retention.evict_dead_letters(10, DAY_MS)
        assert [gone.job_id for gone in evicted] == ([job_id] if state in LETTERS else [])
        assert await state_of(observer, job_id) == (None if state in LETTERS else state)

    async def test_not_before_their_time_and_never_with_zero(
        self, store: Store, observer: Observer
    ) -> None:
        await bring(store, observer, Envelope(kind="mail"), State.ARCHIVED)
        await end_ago(observer, DAY_MS - HOUR_MS)
        assert await store.retention.evict_dead_letters(10, DAY_MS) == []
        await end_ago(observer, 10_000 * DAY_MS)
        assert await store.retention.evict_dead_letters(10, 0) == []
        assert len(await store.retention.evict_dead_letters(10, DAY_MS)) == 1

    async def test_a_retention_of_its_own_wins(self, store: Store, observer: Observer) -> None:
        await bring(store, observer, Envelope(kind="mail"), State.ARCHIVED)
        await end_ago(observer, 2 * DAY_MS, retention_ms=3 * DAY_MS)
        assert await store.retention.evict_dead_letters(10, DAY_MS) == []
        assert await store.retention.evict_retained(10) == []

    async def test_bounded(self, store: Store, observer: Observer) -> None:
        await ended(store, observer, 5, retention_ms=0)
        taken = [len(await store.retention.evict_dead_letters(2, 1)) for _ in range(4)]
        assert taken == [2, 2, 1, 0]


class TestThrottle:
    """A throttle key outlives its job: the row stays as long as the window is open."""

    @pytest.mark.parametrize("retention_ms", [0, 1_000])
    async def test_the_row_waits_for_the_window(
        self, store: Store, observer: Observer, retention_ms: int
    ) -> None:
        job = Envelope(
            kind="mail", unique_key=b"k", unique_window_ms=HOUR_MS, retention_ms=retention_ms
        )
        job_id = await bring(store, observer, job, State.ARCHIVED)
        await end_ago(observer, 5_000)
        for _ in range(2):
            assert await store.retention.evict_retained(10) == []
            assert await store.retention.evict_dead_letters(10, 1_000) == []
        with pytest.raises(DuplicateJob):
            await store.producer.enqueue([job])
        # It is out of the way of the others until then.
        row = await job_row(observer, job_id)
        assert row is not None
        assert row["finalized_at_ms"] + row["retention_ms"] == row["unique_expires_at_ms"]
        await observer.execute(
            "UPDATE headgate_job SET unique_expires_at_ms = 1, finalized_at_ms = 1, retention_ms=1"
        )
        assert [gone.job_id for gone in await store.retention.evict_retained(10)] == [job_id]

    async def test_open_windows_do_not_keep_the_others(
        self, store: Store, observer: Observer
    ) -> None:
        for number in range(3):
            job = Envelope(
                kind="mail", unique_key=b"%d" % number, unique_window_ms=HOUR_MS, retention_ms=1_000
            )
            await bring(store, observer, job, State.ARCHIVED)
        await end_ago(observer, 5_000)
        [job_id] = await ended(store, observer, 1)
        await observer.execute(
            "UPDATE headgate_job SET finalized_at_ms = finalized_at_ms + $2 WHERE ulid = $1",
            job_id,
            1_000_000_000_000,
        )
        taken = [len(await store.retention.evict_retained(1)) for _ in range(4)]
        assert sum(taken) == 1
