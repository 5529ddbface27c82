"""Rate classes: exact budgets, shared by all workers, that block nothing but themselves."""

import asyncio
from fractions import Fraction

import asyncpg
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import BigInteger, bindparam, select

from headgate.queries.gate.buckets import scaled_level
from headgate.store.compilation import Compiled
from headgate.store.gate import Gate
from headgate.store.store import Store
from tests.store.backlog import admit, bucket, by, fill, someone_waits
from tests.store.rows import Observer, now_ms

HOUR_MS = 3_600_000


async def tokens(observer: Observer, name: str = "api") -> int:
    left: int = await observer.fetchval(
        "SELECT tokens FROM headgate_rate_bucket WHERE name = $1", name
    )
    return left


async def advance(observer: Observer, elapsed_ms: int) -> None:
    """Lets time pass for the buckets."""
    await observer.execute(
        "UPDATE headgate_rate_bucket SET refilled_at_ms = refilled_at_ms - $1", elapsed_ms
    )


async def test_a_class_gives_what_it_holds_and_no_more(store: Store, observer: Observer) -> None:
    await bucket(observer, "api", 5, window_ms=HOUR_MS)
    await fill(store, 20, rate_class="api")
    assert len(await admit(store, 20)) == 5
    assert await admit(store, 20, worker="other") == []
    assert await tokens(observer) == 0
    await advance(observer, HOUR_MS * 3 // 5)
    assert len(await admit(store, 20)) == 3
    await advance(observer, 9 * HOUR_MS)
    assert len(await admit(store, 20)) == 5
    assert await observer.fetchval("SELECT sum(rate_charge) FROM headgate_job") == 13


async def test_a_refill_is_not_lost_by_asking_often(store: Store, observer: Observer) -> None:
    await bucket(observer, "api", 50, burst=1_000, tokens=0)
    empty_at = await observer.fetchval("SELECT refilled_at_ms FROM headgate_rate_bucket")
    await fill(store, 1_000, rate_class="api")
    got = 0
    while (await now_ms(observer)) < empty_at + 1_500:
        got += len(await admit(store, 10))
        await asyncio.sleep(0.01)
    before_the_last = await now_ms(observer)
    got += len(await admit(store, 1_000))
    after = await now_ms(observer)
    assert (before_the_last - empty_at) * 50 // 1_000 <= got <= (after - empty_at) * 50 // 1_000


async def test_remainders_add_up(store: Store, observer: Observer) -> None:
    await bucket(observer, "api", 1, window_ms=3 * HOUR_MS, burst=2, tokens=1)
    await fill(store, 9, rate_class="api")
    assert len(await admit(store, 9)) == 1
    for admitted in (0, 0, 1, 0, 0, 1):
        await advance(observer, HOUR_MS)
        assert len(await admit(store, 9)) == admitted


async def test_an_unknown_class_is_unlimited(store: Store, observer: Observer) -> None:
    await bucket(observer, "api", 5, window_ms=HOUR_MS)
    await fill(store, 20, rate_class="api")
    await fill(store, 9, rate_class="unknown")
    assert by("rate_class", await admit(store, 20)) == {"api": 5, "unknown": 9}
    assert await observer.fetchval("SELECT count(*) FROM headgate_rate_bucket") == 1


async def test_an_empty_class_hides_nothing(store: Store, observer: Observer) -> None:
    await bucket(observer, "api", 5, window_ms=HOUR_MS, tokens=0)
    await fill(store, 3_000, rate_class="api", priority=9)
    await fill(store, 1)
    assert by("rate_class", await admit(store, 1)) == {"": 1}
    assert await tokens(observer) == 0


async def test_a_paused_class_waits_with_its_tokens(store: Store, observer: Observer) -> None:
    await bucket(observer, "api", 5, window_ms=HOUR_MS, paused=True)
    await fill(store, 9, rate_class="api")
    await fill(store, 1)
    assert by("rate_class", await admit(store, 20)) == {"": 1}
    await observer.execute("UPDATE headgate_rate_bucket SET paused = false")
    assert by("rate_class", await admit(store, 20)) == {"api": 5}


async def test_a_class_without_a_limit_gives_its_tokens_once(
    store: Store, observer: Observer
) -> None:
    await bucket(observer, "api", 0, burst=5, tokens=2)
    await fill(store, 9, rate_class="api")
    assert len(await admit(store, 20)) == 2
    await advance(observer, HOUR_MS)
    assert await admit(store, 20) == []


async def test_weights_are_paid_in_tokens(store: Store, observer: Observer) -> None:
    await bucket(observer, "api", 5, window_ms=HOUR_MS)
    await fill(store, 1, rate_class="api", weight=3)
    await fill(store, 1, rate_class="api", weight=2)
    await fill(store, 5, rate_class="api", weight=1)
    assert by("weight", await admit(store, 20)) == {3: 1, 2: 1}


async def test_what_does_not_fit_makes_way(store: Store, observer: Observer) -> None:
    await bucket(observer, "api", 5, window_ms=HOUR_MS)
    await fill(store, 1, rate_class="api", weight=3)
    await fill(store, 1, rate_class="api", weight=4)
    await fill(store, 5, rate_class="api", weight=1)
    assert by("weight", await admit(store, 20)) == {3: 1, 1: 2}


async def test_a_job_above_the_burst_costs_the_burst(store: Store, observer: Observer) -> None:
    await bucket(observer, "api", 5, window_ms=HOUR_MS)
    await fill(store, 1, rate_class="api", weight=50)
    await fill(store, 20, rate_class="api", partition_key="x")
    assert by("weight", await admit(store, 20)) == {50: 1}
    assert await tokens(observer) == 0
    await advance(observer, HOUR_MS * 2 // 5)
    assert by("weight", await admit(store, 20)) == {1: 2}
    assert await observer.fetchval("SELECT max(rate_charge) FROM headgate_job") == 5


async def test_a_debt_is_paid_back_first(store: Store, observer: Observer) -> None:
    await bucket(observer, "api", 5, window_ms=HOUR_MS, tokens=-3)
    await fill(store, 9, rate_class="api")
    assert await admit(store, 9) == []
    await advance(observer, HOUR_MS)
    assert len(await admit(store, 9)) == 2


async def test_queues_share_a_class(store: Store, observer: Observer) -> None:
    await bucket(observer, "api", 5, window_ms=HOUR_MS)
    await fill(store, 9, queue="a", rate_class="api")
    await fill(store, 9, queue="z", rate_class="api")
    assert len(await admit(store, 20, "a", "z")) == 5


async def test_only_buckets_that_give_are_written(store: Store, observer: Observer) -> None:
    for name in ("api", "idle", "empty"):
        await bucket(observer, name, 5, window_ms=HOUR_MS, tokens=0 if name == "empty" else 5)
    await fill(store, 1, rate_class="api")
    await fill(store, 1, rate_class="empty")
    versions = "SELECT name, ctid::text FROM headgate_rate_bucket"
    before = set(map(tuple, await observer.fetch(versions)))
    assert len(await admit(store, 20)) == 1
    after = set(map(tuple, await observer.fetch(versions)))
    assert {name for name, _ in after - before} == {"api"}


async def test_a_bucket_that_another_gate_holds_is_waited_for(
    store: Store, observer: Observer
) -> None:
    await bucket(observer, "api", 5, window_ms=HOUR_MS)
    await fill(store, 9, rate_class="api")
    await fill(store, 1)
    async with observer.transaction():
        await observer.execute("UPDATE headgate_rate_bucket SET tokens = 2")
        waiting = asyncio.create_task(admit(store, 9))
        await someone_waits(observer)
    assert by("rate_class", await waiting) == {"api": 2, "": 1}


async def test_many_gates_spend_no_token_twice(store: Store, observer: Observer) -> None:
    await bucket(observer, "api", 40, window_ms=HOUR_MS)
    for key in "abcdefgh":
        await fill(store, 20, rate_class="api", partition_key=key)
    gates = [Gate(store.gate._database) for _ in range(8)]
    got = 0
    for _ in range(3):
        claims = await asyncio.gather(
            *(gate.admit(f"w{n}", ["default"], 7, 30_000) for n, gate in enumerate(gates))
        )
        got += sum(map(len, claims))
    assert got == 40


def level_in_tokens(bucket_row: dict[str, int], now: int) -> Fraction:
    """What the bucket holds by definition, in unlimited numbers."""
    elapsed_ms = max(0, now - bucket_row["refilled_at_ms"])
    refill = Fraction(elapsed_ms * bucket_row["limit_per_window"], bucket_row["window_ms"])
    held = bucket_row["tokens"] + Fraction(bucket_row["remainder"], bucket_row["window_ms"])
    return min(Fraction(bucket_row["burst"]), held + refill)


@st.composite
def buckets(draw: st.DrawFn) -> dict[str, int]:
    sizes = st.one_of(st.integers(1, 100), st.integers(1, 2**31 - 1))
    burst, window_ms = draw(sizes), draw(sizes)
    tokens = draw(st.integers(-burst + 1, burst))
    instants = st.integers(0, 253_402_300_799_999)
    return {
        "burst": burst,
        "window_ms": window_ms,
        "tokens": tokens,
        "remainder": 0 if tokens == burst else draw(st.integers(0, window_ms - 1)),
        "limit_per_window": draw(st.one_of(st.just(0), sizes)),
        "refilled_at_ms": draw(instants),
        "now": draw(instants),
    }


@given(given_buckets=st.lists(buckets(), min_size=10, max_size=20))
@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_levels_are_exact(given_buckets: list[dict[str, int]], headgate_database: str) -> None:
    scaled = asyncio.run(_scaled_levels(headgate_database, given_buckets))
    assert scaled == [
        level_in_tokens(each, each["now"]) * each["window_ms"] for each in given_buckets
    ]


async def _scaled_levels(dsn: str, given_buckets: list[dict[str, int]]) -> list[int]:
    given_row = {name: bindparam(name, type_=BigInteger) for name in given_buckets[0]}
    now_ms = given_row.pop("now")
    row = select(*(value.label(name) for name, value in given_row.items())).subquery("bucket")
    compiled = Compiled(select(scaled_level(row, now_ms)), "public")
    connection = await asyncpg.connect(dsn)
    try:
        return [
            await connection.fetchval(compiled.sql, *compiled.arguments(each))
            for each in given_buckets
        ]
    finally:
        await connection.close()
