"""Rate classes: what is put is what is read, and what a change does to the tokens."""

import asyncio
from typing import Any

import pytest

from headgate.model.errors import InvalidRequest, NotFound
from headgate.model.page import PageRequest
from headgate.model.policy import RateClass, RateClassPolicy
from headgate.store.store import Store
from tests.store.backlog import admit, fill
from tests.store.races import blocked, somebody
from tests.store.rows import HOUR_MS, Observer

MAX_MS = 253_402_300_799_999


async def put(store: Store, name: str, limit: int, window_ms: int = HOUR_MS, **terms: Any) -> None:
    await store.policies.put_rate_class(
        name, RateClassPolicy(limit=limit, window_ms=window_ms, **terms)
    )


async def tokens(store: Store, name: str) -> int:
    return (await store.policies.rate_class(name)).tokens_available


async def spend(store: Store, name: str, count: int) -> None:
    await fill(store, count, rate_class=name)
    assert len(await admit(store, count)) == count


async def age(observer: Observer, by_ms: int) -> None:
    """As if so much time had passed."""
    await observer.execute(
        "UPDATE headgate_rate_bucket SET refilled_at_ms = refilled_at_ms - $1::bigint", by_ms
    )


async def test_a_new_class_is_full(store: Store) -> None:
    await put(store, "smtp", 5, 1_000)
    expected = RateClass(
        name="smtp",
        tokens_available=5,
        burst=5,
        limit_per_window=5,
        window_ms=1_000,
        jobs_waiting=0,
        paused=False,
    )
    assert await store.policies.rate_class("smtp") == expected
    assert (await store.policies.rate_classes(PageRequest())).items == [expected]


@pytest.mark.parametrize(
    ("limit", "burst", "expected"), [(5, None, 5), (5, 9, 9), (5, 1, 1), (0, None, 1), (0, 7, 7)]
)
async def test_the_burst(store: Store, limit: int, burst: int | None, expected: int) -> None:
    await put(store, "smtp", limit, burst=burst)
    found = await store.policies.rate_class("smtp")
    assert found.burst == expected
    assert found.tokens_available == (expected if limit else 0)


@pytest.mark.parametrize(
    ("terms", "text"),
    [
        ({"limit": 5, "window_ms": 0}, "window_ms must be >= 1"),
        ({"limit": -1, "window_ms": -1}, "window_ms must be >= 1"),
        ({"limit": -1, "window_ms": 1}, "limit must be >= 0 and burst >= 1"),
        ({"limit": 1, "window_ms": 1, "burst": 0}, "limit must be >= 0 and burst >= 1"),
        ({"limit": 1, "window_ms": 1, "burst": -(2**63)}, "limit must be >= 0 and burst >= 1"),
        ({"limit": 1, "window_ms": MAX_MS + 1}, "window_ms is too large"),
        ({"limit": 2**61 + 1, "window_ms": 1, "burst": 1}, "limit is too large"),
        ({"limit": 1, "window_ms": 4, "burst": 2**60 + 1}, "burst is too large"),
        ({"limit": 2**61, "window_ms": 3}, "burst is too large"),
    ],
)
async def test_terms_that_cannot_be(store: Store, terms: dict[str, int], text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await put(store, "smtp", **terms)
    assert refused.value.message == text


@pytest.mark.parametrize(
    ("limit", "window_ms", "burst"),
    [
        (2**61, 1, 2**62),
        (2**61, 2**20, 2**42),
        (2**61, MAX_MS, 2**62 // MAX_MS),
        (1, MAX_MS, 2**62 // MAX_MS),
        (2**61, 1, 1),
        (2**61, MAX_MS, 1),
        (1, 1, 2**62),
    ],
)
async def test_no_terms_overflow_later(
    store: Store, observer: Observer, limit: int, window_ms: int, burst: int
) -> None:
    """After any time, empty or full, read or admitted from, changed or explained."""
    [job] = [await store.producer.enqueue(_heavy())]
    for held in (burst, burst - 1, 0):
        for idle_ms in (0, 1, HOUR_MS, MAX_MS // 2):
            await put(store, "smtp", limit, window_ms, burst=burst)
            await observer.execute("UPDATE headgate_rate_bucket SET tokens = $1::bigint", held)
            await age(observer, idle_ms)
            assert held <= await tokens(store, "smtp") <= burst
            assert await store.policies.explain_admission(job[0].id, advice=True)
            await store.queues.blocked("default")
            await put(store, "smtp", 1, 1, burst=1)
            await put(store, "smtp", limit, window_ms, burst=burst)
    await fill(store, 3, rate_class="smtp")
    await admit(store, 5)


def _heavy() -> list[Any]:
    from headgate.model.envelope import Envelope

    return [Envelope(kind="mail", rate_class="smtp", weight=2**31 - 1)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a\0", "name must not contain NUL"),
        ("x" * 256, "name must be at most 255 bytes"),
    ],
)
async def test_names_that_no_row_can_hold(store: Store, name: str, text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await put(store, name, 1)
    assert refused.value.message == text
    with pytest.raises(InvalidRequest):
        await store.policies.delete_rate_class(name)
    with pytest.raises(NotFound):
        await store.policies.rate_class(name)


async def test_pages_by_name(store: Store) -> None:
    names = sorted(["b", "A", "é", "c", "a"], key=str.encode)
    for name in names:
        await put(store, name, 1)
    seen: list[str] = []
    cursor: int | None = 0
    while cursor is not None:
        page = await store.policies.rate_classes(PageRequest(2, cursor))
        seen += [each.name for each in page.items]
        cursor = page.next_cursor
    assert seen == names
    with pytest.raises(InvalidRequest, match="limit must be between 1 and 200"):
        await store.policies.rate_classes(PageRequest(201))


async def test_waiting_jobs_are_counted_up_to_a_thousand(store: Store) -> None:
    for name in ("smtp", "other", "none"):
        await put(store, name, 1)
    await fill(store, 1_003, rate_class="smtp")
    await fill(store, 3, rate_class="other", queue="a")
    await fill(store, 4, rate_class="other", queue="b")
    await fill(store, 5, rate_class="other", pending=True)
    page = await store.policies.rate_classes(PageRequest())
    assert {each.name: each.jobs_waiting for each in page.items} == {
        "none": 0,
        "other": 7,
        "smtp": 1_000,
    }


async def test_tokens_come_back_in_time(store: Store, observer: Observer) -> None:
    await put(store, "smtp", 10)
    await spend(store, "smtp", 10)
    assert await tokens(store, "smtp") == 0
    await age(observer, HOUR_MS // 2)
    assert await tokens(store, "smtp") == 5
    await age(observer, HOUR_MS * 100)
    assert await tokens(store, "smtp") == 10


async def test_a_change_credits_what_came_in(store: Store, observer: Observer) -> None:
    await put(store, "smtp", 10)
    await spend(store, "smtp", 10)
    await age(observer, HOUR_MS * 3 // 10 + HOUR_MS // 20)
    await put(store, "smtp", 1_000)
    found = await store.policies.rate_class("smtp")
    assert (found.burst, found.limit_per_window) == (1_000, 1_000)
    # Three and a half under the old terms, and what has come in since under the new.
    assert 3 <= found.tokens_available <= 10
    row = await observer.fetchrow("SELECT * FROM headgate_rate_bucket")
    assert row is not None
    assert row["tokens"] == 3
    assert row["remainder"] == pytest.approx(HOUR_MS / 2, rel=0.05)


async def test_parts_of_a_token_keep_their_worth_in_another_window(
    store: Store, observer: Observer
) -> None:
    await put(store, "smtp", 10, HOUR_MS)
    await spend(store, "smtp", 10)
    await age(observer, HOUR_MS // 40)
    await put(store, "smtp", 10, MAX_MS)
    row = await observer.fetchrow("SELECT * FROM headgate_rate_bucket")
    assert row is not None
    assert row["tokens"] == 0
    assert row["remainder"] == pytest.approx(MAX_MS / 4, rel=0.05)


async def test_a_smaller_burst_keeps_what_it_can_hold(store: Store) -> None:
    await put(store, "smtp", 10)
    await put(store, "smtp", 10, burst=4)
    assert await tokens(store, "smtp") == 4
    await put(store, "smtp", 10)
    assert await tokens(store, "smtp") == 4


async def test_putting_the_same_again_changes_nothing(store: Store, observer: Observer) -> None:
    await put(store, "smtp", 10)
    await spend(store, "smtp", 7)
    for _ in range(20):
        await put(store, "smtp", 10)
    assert await tokens(store, "smtp") == 3
    await age(observer, HOUR_MS // 10)
    assert await tokens(store, "smtp") == 4


@pytest.mark.parametrize("terms", [{"paused": True}, {"limit": 0}])
async def test_a_stopped_class(store: Store, observer: Observer, terms: dict[str, Any]) -> None:
    await put(store, "smtp", 5, burst=9)
    await put(store, "smtp", **{"limit": 5, "burst": 9, **terms})
    assert await store.policies.rate_class("smtp") == RateClass(
        name="smtp",
        tokens_available=0,
        burst=9,
        limit_per_window=0,
        window_ms=HOUR_MS,
        jobs_waiting=0,
        paused=True,
    )
    await fill(store, 3, rate_class="smtp")
    assert await admit(store, 3) == []
    await age(observer, HOUR_MS * 10)
    assert await tokens(store, "smtp") == 0
    assert await admit(store, 3) == []
    await put(store, "smtp", 5, burst=9)
    found = await store.policies.rate_class("smtp")
    assert (found.tokens_available, found.limit_per_window, found.paused) == (0, 5, False)
    assert await admit(store, 3) == []
    await age(observer, HOUR_MS * 2 // 5)
    assert len(await admit(store, 3)) == 2


async def test_a_debt_outlives_a_change_and_a_pause(store: Store, observer: Observer) -> None:
    await put(store, "smtp", 10)
    await observer.execute("UPDATE headgate_rate_bucket SET tokens = -4, remainder = 0")
    await put(store, "smtp", 20)
    assert await observer.fetchval("SELECT tokens FROM headgate_rate_bucket") in {-4, -3}
    await put(store, "smtp", 20, paused=True)
    assert await tokens(store, "smtp") == 0
    await put(store, "smtp", 20)
    assert await observer.fetchval("SELECT tokens FROM headgate_rate_bucket") in {-4, -3}


async def test_deleting_a_class_lets_its_jobs_run(store: Store) -> None:
    await put(store, "smtp", 1)
    await fill(store, 5, rate_class="smtp")
    assert len(await admit(store, 5)) == 1
    await store.policies.delete_rate_class("smtp")
    assert len(await admit(store, 5)) == 4
    for missing in (store.policies.delete_rate_class, store.policies.rate_class):
        with pytest.raises(NotFound) as refused:
            await missing("smtp")
        assert str(refused.value) == "not found: rate class smtp"


async def test_a_change_waits_for_whoever_spends(
    store: Store, observer: Observer, headgate_database: str
) -> None:
    await put(store, "smtp", 10)
    async with somebody(headgate_database) as gate:
        await gate.execute("UPDATE headgate_rate_bucket SET tokens = 2")
        changing = asyncio.create_task(put(store, "smtp", 20))
        await blocked(observer)
    await changing
    found = await store.policies.rate_class("smtp")
    assert (found.tokens_available, found.burst) == (2, 20)


async def test_two_who_make_the_same_class(
    store: Store, observer: Observer, headgate_database: str
) -> None:
    async with somebody(headgate_database) as other:
        await other.execute(
            "INSERT INTO headgate_rate_bucket (name, tokens, burst, limit_per_window, window_ms,"
            " refilled_at_ms) VALUES ('smtp', 1, 1, 1, 1000000, 4000000000000)"
        )
        putting = asyncio.create_task(put(store, "smtp", 20))
        await blocked(observer)
    await putting
    found = await store.policies.rate_class("smtp")
    assert (found.tokens_available, found.burst) == (1, 20)
