"""Leases that ran out: found window by window, paid for with crashes, quarantined at the third."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from headgate.model.envelope import Envelope
from headgate.model.errors import FingerprintQuarantined, InvalidRequest
from headgate.model.job import Acknowledgement, Lease, Reclaimed
from headgate.model.lifecycle import Outcome
from headgate.queries import reclaim as statements
from headgate.store import upkeep
from headgate.store.store import Store
from tests.store.conftest import OpenStore
from tests.store.rows import HOUR_MS, Observer, deadlocks, job_row, now_ms, start, state_of


async def attempts(
    store: Store, observer: Observer, count: int, *, lease_ms: int = HOUR_MS, **fields: Any
) -> list[Lease]:
    jobs = await store.producer.enqueue([Envelope(kind="mail", **fields) for _ in range(count)])
    return await start(observer, [job.id for job in jobs], lease_ms=lease_ms)


async def expire(observer: Observer, *leases: Lease) -> None:
    await observer.execute(
        "UPDATE headgate_job SET lease_expires_at_ms = 1 WHERE ulid = ANY($1)",
        [lease.job_id for lease in leases],
    )


async def crash(store: Store, observer: Observer, job_id: str) -> Reclaimed:
    """One more crash of the job, from whichever waiting state it is in."""
    await observer.execute("UPDATE headgate_job SET scheduled_at_ms = 1 WHERE ulid = $1", job_id)
    await store.upkeep.promote_due(100)
    [lease] = await start(observer, [job_id])
    await expire(observer, lease)
    [reclaimed] = await store.upkeep.reclaim_expired(100)
    return reclaimed


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:  # type: ignore[misc]
    """A pass looks at three running jobs."""
    size = 3
    monkeypatch.setattr(statements, "WINDOW", size)
    monkeypatch.setattr(upkeep, "WINDOW", size)
    statements.running_window.cache_clear()
    yield size
    statements.running_window.cache_clear()


async def test_a_real_lease_runs_out(store: Store, observer: Observer) -> None:
    [lease] = await attempts(store, observer, 1, lease_ms=150)
    started = await now_ms(observer)
    async with asyncio.timeout(10):
        while not (found := await store.upkeep.reclaim_expired(10)):
            assert await now_ms(observer) < started + 10_000
            await asyncio.sleep(0.01)
    row = await job_row(observer, lease.job_id)
    assert row is not None
    [entry] = json.loads(row["errors"])
    claimed_at_ms = started - 5_000
    assert claimed_at_ms <= entry["at_ms"]
    assert found == [
        Reclaimed(lease.job_id, "mail", row["fingerprint"], crash_attempt=1, quarantined=False)
    ]
    assert entry == {
        "at_ms": entry["at_ms"],
        "crash_attempt": 1,
        "outcome": "lease_lost",
        "error": "lease expired without ack",
    }
    settlements = await store.leases.acknowledge(
        [Acknowledgement(lease=lease, outcome=Outcome.SUCCESS)]
    )
    assert [settlement.state for settlement in settlements] == [None]


async def test_healthy_attempts_are_left_alone(store: Store, observer: Observer) -> None:
    healthy, ill = await attempts(store, observer, 2)
    await expire(observer, ill)
    before = await job_row(observer, healthy.job_id)
    assert [found.job_id for found in await store.upkeep.reclaim_expired(10)] == [ill.job_id]
    assert await job_row(observer, healthy.job_id) == before
    assert await store.upkeep.reclaim_expired(10) == []


async def test_the_third_crash_quarantines_with_a_sample(store: Store, observer: Observer) -> None:
    [job] = await store.producer.enqueue([Envelope(kind="mail", payload=b"poison")])
    for number in (1, 2):
        reclaimed = await crash(store, observer, job.id)
        assert (reclaimed.crash_attempt, reclaimed.quarantined) == (number, False)
        assert await observer.fetch("SELECT * FROM headgate_quarantine") == []
    before = await now_ms(observer)
    reclaimed = await crash(store, observer, job.id)
    assert (reclaimed.crash_attempt, reclaimed.quarantined) == (3, True)
    [row] = await observer.fetch("SELECT * FROM headgate_quarantine")
    assert before <= row["quarantined_at_ms"] <= await now_ms(observer)
    assert dict(row) == {
        "fingerprint": reclaimed.fingerprint,
        "kind": "mail",
        "crash_count": 3,
        "quarantined_at_ms": row["quarantined_at_ms"],
        "sample_payload": b"poison",
        "reason": "crash limit reached",
    }
    with pytest.raises(FingerprintQuarantined):
        await store.producer.enqueue([Envelope(kind="mail", payload=b"poison")])


async def test_one_fingerprint_makes_one_quarantine_with_the_highest_count(
    store: Store, observer: Observer
) -> None:
    leases = await attempts(store, observer, 4)
    await expire(observer, *leases)
    for crashes, lease in enumerate(leases, 2):
        await observer.execute(
            "UPDATE headgate_job SET crash_attempt = $1 WHERE ulid = $2", crashes, lease.job_id
        )
    assert len(await store.upkeep.reclaim_expired(3)) == 3
    assert await observer.fetchval("SELECT crash_count FROM headgate_quarantine") == 5
    assert len(await store.upkeep.reclaim_expired(3)) == 1
    assert await observer.fetchval("SELECT crash_count FROM headgate_quarantine") == 6
    await expire(observer, *await attempts(store, observer, 1, fingerprint="other"))
    await observer.execute("UPDATE headgate_job SET crash_attempt = 2 WHERE state = 'running'")
    await store.upkeep.reclaim_expired(3)
    counts = await observer.fetch("SELECT crash_count FROM headgate_quarantine ORDER BY 1")
    assert [row["crash_count"] for row in counts] == [3, 6]


@pytest.mark.parametrize("crashes", [0, 1])
async def test_the_backoff_of_a_crash(store: Store, observer: Observer, crashes: int) -> None:
    leases = await attempts(store, observer, 20)
    await expire(observer, *leases)
    await observer.execute("UPDATE headgate_job SET crash_attempt = $1", crashes)
    before = await now_ms(observer)
    await store.upkeep.reclaim_expired(100)
    after = await now_ms(observer)
    backoff = 1_000 * 2**crashes
    rows = await observer.fetch("SELECT scheduled_at_ms FROM headgate_job")
    waits = [row["scheduled_at_ms"] for row in rows]
    assert before + backoff <= min(waits)
    assert max(waits) <= after + backoff + 1_000
    assert len(set(waits)) > 10


async def test_the_step_in_progress_is_charged(store: Store, observer: Observer) -> None:
    checkpoints: list[dict[str, Any]] = [
        {},
        {"completed": ["a"], "crashes": {"a": 2}},
        {"in_progress": "b"},
        {"in_progress": "b", "crashes": {"a": 2, "b": 1}, "hash": "h"},
    ]
    charged: list[dict[str, Any]] = [
        {},
        {"completed": ["a"], "crashes": {"a": 2}},
        {"in_progress": "b", "crashes": {"b": 1}},
        {"in_progress": "b", "crashes": {"a": 2, "b": 2}, "hash": "h"},
    ]
    leases = await attempts(store, observer, len(checkpoints))
    await expire(observer, *leases)
    for lease, checkpoint in zip(leases, checkpoints, strict=True):
        await observer.execute(
            "UPDATE headgate_job SET checkpoint = $1 WHERE ulid = $2",
            json.dumps(checkpoint),
            lease.job_id,
        )
    await store.upkeep.reclaim_expired(10)
    rows = [await job_row(observer, lease.job_id) for lease in leases]
    assert [json.loads(row["checkpoint"]) for row in rows if row] == charged


@pytest.mark.parametrize("limit", [0, -1])
async def test_a_limit_is_positive(store: Store, limit: int) -> None:
    with pytest.raises(InvalidRequest, match="limit must be >= 1"):
        await store.upkeep.reclaim_expired(limit)


async def test_the_limit_bounds_a_pass_and_the_next_goes_on(
    store: Store, observer: Observer
) -> None:
    leases = await attempts(store, observer, 5)
    await expire(observer, *leases)
    ids = [lease.job_id for lease in leases]
    passes = [await store.upkeep.reclaim_expired(2) for _ in range(4)]
    assert [[found.job_id for found in each] for each in passes] == [
        ids[:2],
        ids[2:4],
        ids[4:],
        [],
    ]


async def test_windows_go_round(store: Store, observer: Observer, small_windows: int) -> None:
    leases = await attempts(store, observer, 7)
    await expire(observer, leases[6])
    for expected in ([], [], [leases[6].job_id], []):
        found = await store.upkeep.reclaim_expired(10)
        assert [each.job_id for each in found] == expected
    # Behind the last window the next pass begins with the first one.
    await store.upkeep.reclaim_expired(10)
    await store.upkeep.reclaim_expired(10)
    await expire(observer, leases[0])
    found = []
    for _ in range(small_windows):
        found += await store.upkeep.reclaim_expired(10)
    assert [each.job_id for each in found] == [leases[0].job_id]


async def test_a_row_that_is_being_reported_is_left_to_its_holder(
    store: Store, observer: Observer, headgate_database: str
) -> None:
    reported, lost = await attempts(store, observer, 2)
    await expire(observer, reported, lost)
    holder = await asyncpg.connect(headgate_database)
    async with holder.transaction():
        await holder.execute(
            "UPDATE headgate_job SET state = 'completed', lease_id = NULL WHERE ulid = $1",
            reported.job_id,
        )
        found = await asyncio.wait_for(store.upkeep.reclaim_expired(10), 5)
        assert [each.job_id for each in found] == [lost.job_id]
    await holder.close()
    assert await store.upkeep.reclaim_expired(10) == []
    assert await state_of(observer, reported.job_id) == "completed"


async def test_a_renewal_in_time_saves_the_attempt(store: Store, observer: Observer) -> None:
    [lease] = await attempts(store, observer, 1)
    await expire(observer, lease)
    assert await store.leases.renew([lease], HOUR_MS) == []
    assert await store.upkeep.reclaim_expired(10) == []


async def test_the_expiry_is_looked_at_again_under_the_lock(
    store: Store, observer: Observer
) -> None:
    renewed, lost = await attempts(store, observer, 2)
    await expire(observer, renewed, lost)
    window = await store.hot_path.fetch(statements.running_window(), {"after_id": 0})
    assert [row["expired"] for row in window] == [True, True]
    await store.leases.renew([renewed], HOUR_MS)
    expired = {"row_id_array": [row["id"] for row in window]}
    rows = await store.hot_path.fetch(statements.reclaim(), expired)
    assert [row["job_id"] for row in rows] == [lost.job_id]


async def test_many_reclaimers_take_each_job_once(
    open_store: OpenStore, observer: Observer
) -> None:
    stores = [open_store(pool_size=1) for _ in range(6)]
    leases = []
    for number in range(10):
        leases += await attempts(stores[0], observer, 30, fingerprint=f"f{number}")
    await expire(observer, *leases)
    await observer.execute("UPDATE headgate_job SET crash_attempt = 2")

    async def reclaim(store: Store) -> list[Reclaimed]:
        found: list[Reclaimed] = []
        while batch := await store.upkeep.reclaim_expired(40):
            found += batch
        return found

    batches = await asyncio.gather(*(reclaim(store) for store in stores))
    found = [each.job_id for batch in batches for each in batch]
    # What one leaves because another holds it, the other takes.
    found += [each.job_id for each in await stores[0].upkeep.reclaim_expired(1_000)]
    assert sorted(found) == sorted(lease.job_id for lease in leases)
    assert await observer.fetchval("SELECT count(*) FROM headgate_quarantine") == 10
    for store in stores:
        await store.close()
    assert await deadlocks(observer) == 0
