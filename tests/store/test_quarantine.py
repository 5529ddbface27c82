"""Quarantine: what is held back is parked where everybody sees it, and let go as a whole."""

import asyncio
from collections import Counter

import pytest

from headgate.model.envelope import Envelope
from headgate.model.errors import (
    DuplicateJob,
    FingerprintQuarantined,
    InvalidRequest,
    NotFound,
    StoreUnavailable,
)
from headgate.model.identity import fingerprint
from headgate.model.lifecycle import State
from headgate.model.page import PageRequest
from headgate.model.quarantine import QuarantinedFingerprint, Release
from headgate.queries import quarantine as statements
from headgate.store import quarantine
from headgate.store.store import Store
from tests.store.backlog import admit
from tests.store.conftest import OpenStore
from tests.store.journeys import bring
from tests.store.races import blocked, somebody
from tests.store.rows import Observer, assert_lanes, deadlocks, job_row, start, state_of

POISON = fingerprint("mail", b"poison")


def poison(**fields: str | bytes | int) -> Envelope:
    envelope = Envelope(kind="mail", payload=b"poison")
    for name, value in fields.items():
        setattr(envelope, name, value)
    return envelope


async def hold_back(observer: Observer, name: str = POISON, at_ms: int = 1) -> None:
    await observer.execute(
        "INSERT INTO headgate_quarantine VALUES ($1, 'mail', 3, $2, NULL, 'crash limit reached')",
        name,
        at_ms,
    )


async def park(store: Store, observer: Observer, count: int, **fields: str | bytes) -> list[str]:
    """Jobs that were parked with the entry of their fingerprint."""
    jobs = await store.producer.enqueue([poison(**fields) for _ in range(count)])
    ids = [job.id for job in jobs]
    await observer.execute(
        "UPDATE headgate_job SET state = 'quarantined', finalized_at_ms = 1, crash_attempt = 3"
        " WHERE ulid = ANY($1)",
        ids,
    )
    return ids


async def states(observer: Observer) -> dict[str, int]:
    rows = await observer.fetch("SELECT state FROM headgate_job")
    return dict(Counter(row["state"] for row in rows))


class TestEntries:
    async def test_newest_first(self, store: Store, observer: Observer) -> None:
        for name, at_ms in (("b", 5), ("c", 9), ("a", 5)):
            await hold_back(observer, name, at_ms)
        await observer.execute("INSERT INTO headgate_quarantine VALUES ('d', 'k', 7, 3)")
        page = await store.quarantine.entries(PageRequest())
        assert [entry.fingerprint for entry in page.items] == ["c", "a", "b", "d"]
        assert page.next_cursor is None
        assert page.items[0] == QuarantinedFingerprint(
            fingerprint="c",
            kind="mail",
            crash_count=3,
            quarantined_at_ms=9,
            reason="crash limit reached",
        )
        assert page.items[3].reason == ""

    async def test_pages(self, store: Store, observer: Observer) -> None:
        assert (await store.quarantine.entries(PageRequest())).items == []
        for number in range(5):
            await hold_back(observer, f"f{number}", 10 - number)
        seen: list[str] = []
        cursor: int | None = 0
        while cursor is not None:
            page = await store.quarantine.entries(PageRequest(limit=2, cursor=cursor))
            seen += [entry.fingerprint for entry in page.items]
            cursor = page.next_cursor
        assert seen == [f"f{number}" for number in range(5)]
        assert (await store.quarantine.entries(PageRequest(cursor=99))).items == []
        with pytest.raises(InvalidRequest, match="limit must be between 1 and 200"):
            await store.quarantine.entries(PageRequest(limit=0))


class TestSweep:
    @pytest.mark.parametrize("state", State)
    async def test_what_waits_is_parked(
        self, store: Store, observer: Observer, state: State
    ) -> None:
        job_id = await bring(store, observer, poison(), state)
        other = await bring(store, observer, Envelope(kind="mail"), state)
        await hold_back(observer)
        waits = state in {State.SCHEDULED, State.AVAILABLE, State.RETRYABLE}
        assert await store.quarantine.sweep(10) == waits
        assert await state_of(observer, job_id) == ("quarantined" if waits else state)
        assert await state_of(observer, other) == state
        if waits:
            row = await job_row(observer, job_id)
            assert row is not None
            assert row["finalized_at_ms"] > 1
        assert await store.quarantine.sweep(10) == 0

    async def test_it_is_bounded_and_goes_on(self, store: Store, observer: Observer) -> None:
        await store.producer.enqueue([poison() for _ in range(25)])
        await hold_back(observer)
        assert [await store.quarantine.sweep(10) for _ in range(4)] == [10, 10, 5, 0]
        assert await states(observer) == {"quarantined": 25}
        with pytest.raises(InvalidRequest, match="limit must be >= 1"):
            await store.quarantine.sweep(0)

    async def test_it_rotates_over_the_entries(
        self, store: Store, observer: Observer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(statements, "FINGERPRINTS", 3)
        statements.waiting_jobs.cache_clear()
        try:
            for number in range(10):
                await store.producer.enqueue([Envelope(kind="mail", fingerprint=f"f{number}")] * 4)
                await hold_back(observer, f"f{number}")
            # Three entries a time; the third page is cut by the bound and looked at again.
            assert [await store.quarantine.sweep(12) for _ in range(3)] == [12, 0, 12]
            for _ in range(8):
                await store.quarantine.sweep(12)
            assert await states(observer) == {"quarantined": 40}
            # What comes later is found in the next round.
            await observer.execute("UPDATE headgate_job SET state = 'available'")
            for _ in range(12):
                await store.quarantine.sweep(12)
            assert await states(observer) == {"quarantined": 40}
        finally:
            statements.waiting_jobs.cache_clear()

    async def test_a_job_that_somebody_holds_is_left_for_later(
        self, store: Store, observer: Observer, headgate_database: str
    ) -> None:
        jobs = await store.producer.enqueue([poison() for _ in range(3)])
        await hold_back(observer)
        async with somebody(headgate_database) as other:
            await other.execute("SELECT FROM headgate_job WHERE ulid = $1 FOR UPDATE", jobs[1].id)
            assert await asyncio.wait_for(store.quarantine.sweep(10), 10) == 2
        assert await store.quarantine.sweep(10) == 1

    async def test_a_job_that_starts_meanwhile_runs(self, store: Store, observer: Observer) -> None:
        jobs = await store.producer.enqueue([poison() for _ in range(2)])
        await start(observer, [jobs[0].id])
        await hold_back(observer)
        assert await store.quarantine.sweep(10) == 1
        assert await states(observer) == {"running": 1, "quarantined": 1}

    async def test_a_released_entry_parks_nothing(
        self, store: Store, observer: Observer, headgate_database: str
    ) -> None:
        """The sweep sees the entry, but whoever releases it has it."""
        await store.producer.enqueue([poison() for _ in range(2)])
        await hold_back(observer)
        async with somebody(headgate_database) as other:
            await other.execute("DELETE FROM headgate_quarantine")
            assert await asyncio.wait_for(store.quarantine.sweep(10), 10) == 0
        assert await store.quarantine.sweep(10) == 0
        assert await states(observer) == {"available": 2}

    async def test_a_release_waits_for_the_sweep_and_frees_what_it_parked(
        self, store: Store, observer: Observer, headgate_database: str, open_store: OpenStore
    ) -> None:
        sweeper = open_store()
        await store.producer.enqueue([poison() for _ in range(2)])
        await hold_back(observer)
        async with sweeper.database.transaction() as session:
            row_ids = await observer.fetchval("SELECT array_agg(id) FROM headgate_job")
            parked = await session.fetch(statements.park_waiting(), {"row_id_array": row_ids})
            assert len(parked) == 2
            releasing = asyncio.create_task(store.quarantine.release(POISON))
            await blocked(observer)
        assert await asyncio.wait_for(releasing, 10) == Release(released=2, clashes=0)
        assert await states(observer) == {"available": 2}

    async def test_sweepers_and_releases_leave_nobody_behind(
        self, open_store: OpenStore, observer: Observer
    ) -> None:
        stores = [open_store(pool_size=1) for _ in range(4)]
        await stores[0].producer.enqueue([poison() for _ in range(200)])

        async def sweep(store: Store) -> None:
            for _ in range(40):
                await store.quarantine.sweep(20)

        async def release(store: Store) -> None:
            for _ in range(20):
                await hold_back_again(observer)
                await asyncio.sleep(0)
                await store.quarantine.release(POISON)

        await asyncio.wait_for(
            asyncio.gather(*(sweep(store) for store in stores[:3]), release(stores[3])), 60
        )
        # The last word was a release, so nothing may be parked.
        assert await states(observer) == {"available": 200}
        await assert_lanes(observer)
        for store in stores:
            await store.close()
        assert await deadlocks(observer) == 0


async def hold_back_again(observer: Observer) -> None:
    await observer.execute(
        "INSERT INTO headgate_quarantine VALUES ($1, 'mail', 3, 1) ON CONFLICT DO NOTHING", POISON
    )


class TestRelease:
    async def test_the_jobs_run_again_with_their_crashes_forgiven(
        self, store: Store, observer: Observer
    ) -> None:
        ids = await park(store, observer, 3, queue="q", partition_key="p")
        await observer.execute("DELETE FROM headgate_active_partition")
        other = await bring(store, observer, Envelope(kind="mail"), State.QUARANTINED)
        await hold_back(observer)
        await hold_back(observer, "another")
        with store.listener.subscribe() as subscription:
            async with asyncio.timeout(10):
                while "" not in await subscription.wait(10_000):
                    pass
                assert await store.quarantine.release(POISON) == Release(released=3, clashes=0)
                assert await subscription.wait(10_000) == {"q"}
        for job_id in ids:
            row = await job_row(observer, job_id)
            assert row is not None
            assert (row["state"], row["crash_attempt"]) == ("available", 0)
            assert (row["finalized_at_ms"], row["claimed_at_ms"]) == (None, None)
            assert row["scheduled_at_ms"] > 1
        assert await state_of(observer, other) == "quarantined"
        left = await store.quarantine.entries(PageRequest())
        assert [entry.fingerprint for entry in left.items] == ["another"]
        await assert_lanes(observer)
        assert {claim.job_id for claim in await admit(store, 10, "q")} == set(ids)

    async def test_new_jobs_may_enter(self, store: Store, observer: Observer) -> None:
        await hold_back(observer)
        with pytest.raises(FingerprintQuarantined):
            await store.producer.enqueue([poison()])
        assert await store.quarantine.release(POISON) == Release(released=0, clashes=0)
        await store.producer.enqueue([poison()])

    async def test_what_is_not_held_back_cannot_be_released(
        self, store: Store, observer: Observer
    ) -> None:
        await store.producer.enqueue([poison()])
        for name in (POISON, "nobody", ""):
            with pytest.raises(NotFound) as missing:
                await store.quarantine.release(name)
            assert str(missing.value) == f"not found: fingerprint {name} is not quarantined"
        with pytest.raises(InvalidRequest, match="fingerprint must not contain NUL"):
            await store.quarantine.release("\0")

    async def test_in_batches_until_all_are_free(
        self, store: Store, observer: Observer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(quarantine, "BATCH", 4)
        await park(store, observer, 12)
        await hold_back(observer)
        assert await store.quarantine.release(POISON) == Release(released=12, clashes=0)
        assert await states(observer) == {"available": 12}

    async def test_interrupted_it_can_be_asked_for_again(
        self,
        open_store: OpenStore,
        observer: Observer,
        headgate_database: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(quarantine, "BATCH", 4)
        store = open_store(lock_timeout_ms=100)
        ids = await park(store, observer, 10)
        await hold_back(observer)
        async with somebody(headgate_database) as other:
            await other.execute("SELECT FROM headgate_job WHERE ulid = $1 FOR UPDATE", ids[6])
            with pytest.raises(StoreUnavailable):
                await store.quarantine.release(POISON)
        assert await states(observer) == {"available": 4, "quarantined": 6}
        # The entry is gone, its jobs are not.
        assert await store.quarantine.release(POISON) == Release(released=6, clashes=0)


class TestClashes:
    """A unique key that somebody else took while its job was parked."""

    async def test_the_others_are_freed(self, store: Store, observer: Observer) -> None:
        clashing = await park(store, observer, 1, unique_key=b"k")
        await park(store, observer, 2)
        [holder] = await store.producer.enqueue([Envelope(kind="mail", unique_key=b"k")])
        await hold_back(observer)
        assert await store.quarantine.release(POISON) == Release(released=2, clashes=1)
        assert await state_of(observer, clashing[0]) == "quarantined"
        await store.control.cancel(holder.id)
        assert await store.quarantine.release(POISON) == Release(released=1, clashes=0)

    async def test_with_nothing_to_free_the_holder_is_named(
        self, store: Store, observer: Observer
    ) -> None:
        await park(store, observer, 1, unique_key=b"k")
        [holder] = await store.producer.enqueue([Envelope(kind="mail", unique_key=b"k")])
        await hold_back(observer)
        with pytest.raises(DuplicateJob) as clash:
            await store.quarantine.release(POISON)
        assert clash.value.existing_id == holder.id
        # Nothing was changed.
        assert len((await store.quarantine.entries(PageRequest())).items) == 1

    async def test_bc_45_parked_it_holds_no_key(self, store: Store, observer: Observer) -> None:
        [job] = await store.producer.enqueue([poison(unique_key=b"k")])
        await hold_back(observer)
        await store.quarantine.sweep(10)
        await store.producer.enqueue([Envelope(kind="mail", unique_key=b"k")])
        assert await state_of(observer, job.id) == "quarantined"
