"""A heavy job waits its turn, and then for its tokens, but not behind light ones for ever."""

from typing import Any

import pytest

from headgate.model.job import Claim
from headgate.store import gate as gate_module
from headgate.store.store import Store
from tests.store.backlog import admit, bucket, by, ceiling, fill, pause, weigh
from tests.store.rows import HOUR_MS, Observer
from tests.store.test_admission import explained

# A token comes in so seldom that time only passes when the test says so.
LIMIT = 10
HEAVY = 10


@pytest.fixture(autouse=True)
def _watchful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_module, "_UPKEEP_INTERVAL_S", 0.0)


async def pass_time(observer: Observer, tokens: int) -> None:
    """Lets as much time pass as so many tokens need."""
    elapsed_ms = tokens * HOUR_MS // LIMIT
    await observer.execute(
        "UPDATE headgate_rate_bucket SET refilled_at_ms = refilled_at_ms - $1", elapsed_ms
    )
    await observer.execute(
        "UPDATE headgate_job SET scheduled_at_ms = scheduled_at_ms - $1", elapsed_ms
    )


async def scarce(observer: Observer, tokens: int = 0) -> None:
    await bucket(observer, "api", LIMIT, window_ms=HOUR_MS, tokens=tokens)


async def starve(store: Store, observer: Observer, **heavy: Any) -> str:
    """A heavy job that has waited for longer than light ones may keep it; its id."""
    await fill(store, 1, **{"rate_class": "api", "weight": HEAVY, **heavy})
    await pass_time(observer, 2 * HEAVY + 1)
    await observer.execute("UPDATE headgate_rate_bucket SET tokens = 0, remainder = 0")
    await observer.execute(
        "UPDATE headgate_rate_bucket SET refilled_at_ms = (SELECT max("
        "enqueued_at_ms) FROM headgate_job)"
    )
    job_id: str = await observer.fetchval("SELECT ulid FROM headgate_job ORDER BY id DESC LIMIT 1")
    return job_id


async def reserved(observer: Observer) -> str | None:
    job_id: str | None = await observer.fetchval(
        "SELECT ulid FROM headgate_job JOIN headgate_rate_bucket ON reserved_job_id = ulid"
    )
    return job_id


def heavy_ones(claims: list[Claim]) -> int:
    return by("weight", claims).get(HEAVY, 0)


@pytest.mark.parametrize("where", ["lane", "partition", "pin", "queue", "level"])
async def test_light_jobs_do_not_overtake_a_heavy_one_for_ever(
    store: Store, observer: Observer, where: str
) -> None:
    """Three tokens come in at a time, and there is always somebody who wants one."""
    await scarce(observer)
    places: dict[str, dict[str, Any]] = {
        "lane": {},
        "partition": {"partition_key": "heavy"},
        "pin": {"sticky_worker": "worker"},
        "queue": {"queue": "other"},
        "level": {"priority": 1},
    }
    for key in "abcdefgh":
        await fill(store, 1, rate_class="api", partition_key=key)
    await fill(store, 1, rate_class="api", weight=HEAVY, **places[where])
    lights = 0
    for _ in range((2 * HEAVY + 1 + HEAVY) // 3 + 2):
        await fill(store, 6, rate_class="api")
        await fill(store, 1, rate_class="api", partition_key="b")
        await pass_time(observer, 3)
        claims = await admit(store, 4, "default", "other")
        if heavy_ones(claims):
            break
        lights += len(claims)
    assert heavy_ones(claims) == 1
    assert lights >= 2 * HEAVY - 2
    await pass_time(observer, 3)
    assert len(await admit(store, 4, "default", "other")) == 3


async def test_heavy_jobs_of_many_partitions_all_run(store: Store, observer: Observer) -> None:
    await scarce(observer)
    partitions = 8
    for number in range(partitions):
        await fill(store, 1, rate_class="api", weight=HEAVY, partition_key=f"p{number}")
    started = 0
    steps = 0
    while started < partitions:
        await fill(store, 6, rate_class="api")
        await pass_time(observer, 4)
        started += heavy_ones(await admit(store, 5))
        steps += 1
        assert steps < (2 * HEAVY + partitions * (HEAVY + 4)) // 4 + 2


async def test_nobody_else_takes_the_tokens(store: Store, observer: Observer) -> None:
    """Not even a worker that never sees the queue of the heavy job."""
    await scarce(observer)
    heavy = await starve(store, observer, queue="heavy")
    await fill(store, 20, rate_class="api", queue="light", priority=5)
    await fill(store, 1, queue="light")
    assert await admit(store, 5, "heavy") == []
    assert await reserved(observer) == heavy
    await pass_time(observer, 6)
    assert by("rate_class", await admit(store, 5, "light", worker="other")) == {"": 1}
    await pass_time(observer, 4)
    assert await admit(store, 5, "light", worker="other") == []
    assert heavy_ones(await admit(store, 5, "light", "heavy")) == 1
    await pass_time(observer, 2)
    assert len(await admit(store, 5, "light", worker="other")) == 2


async def test_a_reservation_ends_with_its_job(store: Store, observer: Observer) -> None:
    await scarce(observer)
    heavy = await starve(store, observer, queue="heavy")
    await fill(store, 9, rate_class="api")
    assert await admit(store, 5, "heavy") == []
    await pass_time(observer, 3)
    assert await admit(store, 5) == []
    await store.control.cancel(heavy)
    assert len(await admit(store, 5)) == 3


async def test_a_reservation_that_is_not_used_ends(store: Store, observer: Observer) -> None:
    await scarce(observer)
    await starve(store, observer, queue="heavy")
    await fill(store, 9, rate_class="api")
    assert await admit(store, 5, "heavy") == []
    until = "SELECT reserved_until_ms - refilled_at_ms FROM headgate_rate_bucket"
    assert 0 < await observer.fetchval(until) - HOUR_MS < 60_000
    await pass_time(observer, 3)
    assert await admit(store, 5) == []
    await observer.execute("UPDATE headgate_rate_bucket SET reserved_until_ms = 1")
    assert len(await admit(store, 5)) == 3


@pytest.mark.parametrize("blocked", ["ceiling", "pause", "pin", "priority", "light", "patient"])
async def test_only_what_starves_for_tokens_reserves(
    store: Store, observer: Observer, blocked: str
) -> None:
    await scarce(observer)
    if blocked == "ceiling":
        await ceiling(observer, "default", 1)
        await fill(store, 1)
        assert len(await admit(store, 1)) == 1
    if blocked == "patient":
        await fill(store, 1, rate_class="api", weight=HEAVY)
        await pass_time(observer, 2 * HEAVY - 1)
        await observer.execute("UPDATE headgate_rate_bucket SET tokens = -9")
    else:
        fields: dict[str, dict[str, Any]] = {
            "pin": {"sticky_worker": "another"},
            "light": {"weight": 1},
        }
        await starve(store, observer, **fields.get(blocked, {}))
    if blocked == "pause":
        await pause(observer, "default")
    if blocked == "priority":
        await fill(store, 1, rate_class="api", priority=1)
    await fill(store, 3, rate_class="api", queue="light")
    await admit(store, 5, "default", "light")
    assert await reserved(observer) is None


async def test_a_search_in_pieces_reaches_every_lane(
    store: Store, observer: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_module, "_LANES", 6)
    await scarce(observer)
    for number in range(40):
        await fill(store, 1, rate_class="api", partition_key=f"p{number:02}")
    heavy = await starve(store, observer, partition_key="p33+")
    calls = 0
    while await reserved(observer) != heavy:
        await admit(store, 1)
        calls += 1
        assert calls <= 5


async def test_what_saves_up_and_what_waits_for_it_is_explained(
    store: Store, observer: Observer
) -> None:
    await scarce(observer)
    await weigh(observer, "default", 1)
    heavy = await starve(store, observer, partition_key="h")
    await fill(store, 3, rate_class="api")
    light: str = await observer.fetchval("SELECT max(ulid) FROM headgate_job")
    await admit(store, 5)
    await pass_time(observer, HEAVY - 1)
    for job_id in (light, heavy):
        admission = await explained(store, job_id)
        assert admission.blocked_by == "rate_class"
        assert admission.detail["class_saves_up_for"] == heavy
        assert (admission.estimated_admission_ms or 0) > 0
    reasons = (await store.queues.blocked("default")).reasons
    assert reasons.rate_class == 4
    await pass_time(observer, 1)
    assert (await explained(store, light)).blocked_by == "rate_class"
    assert (await explained(store, heavy)).admissible
    assert (await store.queues.blocked("default")).reasons.rate_class == 3
    assert heavy_ones(await admit(store, 5)) == 1
