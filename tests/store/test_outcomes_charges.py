"""The real cost of an attempt, against what the gate charged its class for it."""

import asyncio
from typing import Any

import pytest

from headgate.model.envelope import Envelope
from headgate.model.errors import InvalidRequest
from headgate.model.job import Acknowledgement, Lease
from headgate.model.lifecycle import Outcome
from headgate.store.store import Store
from tests.store.backlog import bucket
from tests.store.conftest import OpenStore
from tests.store.rows import HOUR_MS, Observer, deadlocks, job_row, start, state_of

WINDOW_MS = 1_000_000_000


async def charged(
    store: Store, observer: Observer, count: int = 1, *, charge: int = 3, rate_class: str = "api"
) -> list[Lease]:
    """Attempts whose class was charged in advance."""
    jobs = await store.producer.enqueue(
        [Envelope(kind="mail", rate_class=rate_class, retention_ms=HOUR_MS) for _ in range(count)]
    )
    leases = await start(observer, [job.id for job in jobs])
    await observer.execute(
        "UPDATE headgate_job SET rate_charge = $1 WHERE ulid = ANY($2)",
        charge,
        [lease.job_id for lease in leases],
    )
    return leases


async def report(
    store: Store, *leases: Lease, weight: int | None, outcome: Outcome = Outcome.SUCCESS
) -> list[str | None]:
    delay_ms = 1 if outcome is Outcome.SNOOZE else None
    settlements = await store.leases.acknowledge(
        [
            Acknowledgement(lease=lease, outcome=outcome, actual_weight=weight, delay_ms=delay_ms)
            for lease in leases
        ]
    )
    return [settlement.state for settlement in settlements]


async def level(observer: Observer, name: str = "api") -> tuple[int, int]:
    """Whole tokens and the remainder."""
    row = await observer.fetchrow("SELECT * FROM headgate_rate_bucket WHERE name = $1", name)
    assert row is not None
    assert 0 <= row["remainder"] < row["window_ms"]
    return row["tokens"], row["remainder"]


async def slow_bucket(observer: Observer, tokens: int, **fields: Any) -> None:
    """A class that refills by next to nothing while a test runs."""
    await bucket(
        observer, "api", 1, **{"burst": 10, "window_ms": WINDOW_MS, "tokens": tokens} | fields
    )


@pytest.mark.parametrize(
    ("weight", "tokens"),
    [(None, 5), (3, 5), (0, 8), (1, 7), (5, 3), (8, 0), (9, -1), (20, -12)],
)
@pytest.mark.parametrize("outcome", Outcome)
async def test_the_difference_is_settled_whatever_the_outcome(
    store: Store, observer: Observer, weight: int | None, tokens: int, outcome: Outcome
) -> None:
    await slow_bucket(observer, 5)
    [lease] = await charged(store, observer)
    assert await report(store, lease, weight=weight, outcome=outcome) != [None]
    assert (await level(observer))[0] == tokens
    row = await job_row(observer, lease.job_id)
    assert row is None or row["rate_charge"] == 0


async def test_a_bucket_holds_no_more_than_its_burst(store: Store, observer: Observer) -> None:
    await slow_bucket(observer, 9)
    leases = await charged(store, observer, 4)
    await report(store, *leases, weight=0)
    assert await level(observer) == (10, 0)


async def test_a_batch_is_summed_up_by_class(store: Store, observer: Observer) -> None:
    await slow_bucket(observer, 5)
    await bucket(observer, "other", 1, burst=10, window_ms=WINDOW_MS, tokens=5)
    leases = await charged(store, observer, 3)
    others = await charged(store, observer, 2, rate_class="other", charge=1)
    free = await charged(store, observer, 1, rate_class="unknown")
    assert None not in await report(store, *leases, *others, *free, weight=2)
    assert (await level(observer))[0] == 8
    assert (await level(observer, "other"))[0] == 3


async def test_only_a_held_lease_settles_and_only_once(store: Store, observer: Observer) -> None:
    await slow_bucket(observer, 5)
    [lease] = await charged(store, observer)
    assert await report(store, Lease(lease.job_id, "other", lease.fence), weight=0) == [None]
    assert await report(store, Lease(lease.job_id, lease.lease_id, 9), weight=0) == [None]
    assert (await level(observer))[0] == 5
    assert await report(store, lease, lease, weight=0) == ["completed", None]
    assert await report(store, lease, weight=0) == [None]
    assert (await level(observer))[0] == 8


async def test_what_was_not_charged_is_not_settled(store: Store, observer: Observer) -> None:
    await slow_bucket(observer, 5)
    [lease] = await charged(store, observer, charge=0)
    await report(store, lease, weight=4)
    assert (await level(observer))[0] == 5


async def test_a_paused_class_stays_as_it_is(store: Store, observer: Observer) -> None:
    await slow_bucket(observer, 0, paused=True)
    [lease] = await charged(store, observer)
    assert await report(store, lease, weight=0) == ["completed"]
    assert await level(observer) == (0, 0)


async def test_the_refill_until_now_is_not_lost(store: Store, observer: Observer) -> None:
    await slow_bucket(observer, 0, window_ms=3_000)
    await observer.execute(
        "UPDATE headgate_rate_bucket SET remainder = 1, refilled_at_ms = refilled_at_ms - 6500"
    )
    [lease] = await charged(store, observer)
    await report(store, lease, weight=5)
    tokens, remainder = await level(observer)
    # Two tokens and a part of the third came in, two of them were overspent.
    assert tokens == 0
    assert remainder >= 501


async def test_a_debt_is_paid_by_the_refill(store: Store, observer: Observer) -> None:
    await slow_bucket(observer, 0, window_ms=1_000)
    [lease] = await charged(store, observer)
    await report(store, lease, weight=5)
    tokens, _ = await level(observer)
    assert tokens in {-2, -1}
    await observer.execute("UPDATE headgate_rate_bucket SET refilled_at_ms = refilled_at_ms - 4000")
    await store.producer.enqueue([Envelope(kind="mail", rate_class="api")] * 9)
    claims = await store.gate.admit("worker", ["default"], 9, HOUR_MS)
    assert 2 <= len(claims) <= 4


@pytest.mark.parametrize("window_ms", [1, 2**58 // 10])
async def test_any_weight_fits(store: Store, observer: Observer, window_ms: int) -> None:
    await slow_bucket(observer, 5, window_ms=window_ms)
    leases = await charged(store, observer, 3)
    assert None not in await report(store, *leases, weight=2**31 - 1)
    tokens, _ = await level(observer)
    assert tokens < 0
    # The gate can still count with it.
    await store.producer.enqueue([Envelope(kind="mail", rate_class="api")])
    await store.gate.admit("worker", ["default"], 1, HOUR_MS)


@pytest.mark.parametrize("weight", [-1, 2**31])
async def test_a_weight_is_a_count(store: Store, observer: Observer, weight: int) -> None:
    [lease] = await charged(store, observer)
    with pytest.raises(InvalidRequest, match="actual_weight"):
        await report(store, lease, weight=weight)
    assert await state_of(observer, lease.job_id) == "running"


async def test_many_reports_settle_exactly(open_store: OpenStore, observer: Observer) -> None:
    store = open_store(pool_size=8)
    await slow_bucket(observer, 0, burst=10_000)
    await bucket(observer, "other", 1, burst=10_000, window_ms=WINDOW_MS, tokens=0)
    leases = await charged(store, observer, 200) + await charged(
        store, observer, 200, rate_class="other"
    )
    parts = [leases[start::8] for start in range(8)]
    await asyncio.gather(*(report(store, *part, weight=1) for part in parts))
    assert (await level(observer))[0] == 400
    assert (await level(observer, "other"))[0] == 400
    await store.close()
    assert await deadlocks(observer) == 0
