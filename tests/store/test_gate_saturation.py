"""What becomes of a job that finds no room: it waits, it ends, or it takes another's place."""

import asyncio
from collections import Counter

import pytest

from headgate.model.envelope import Envelope
from headgate.model.job import Acknowledgement
from headgate.model.lifecycle import Outcome
from headgate.queries.gate.walk import LEVELS
from headgate.store.gate import Gate
from headgate.store.store import Store
from tests.store.backlog import (
    LEASE_MS,
    admit,
    bucket,
    by,
    ceiling,
    fill,
    finish,
    pause,
    quarantine,
    someone_waits,
)
from tests.store.rows import HOUR_MS, Observer, job_row, state_of
from tests.store.test_admission import explained

ENDS = {"discard": "archived", "cancel_incoming": "cancelled"}


async def states(observer: Observer, column: str = "queue") -> dict[tuple[str, str], int]:
    rows = await observer.fetch(f"SELECT {column}, state::text FROM headgate_job")  # noqa: S608  # a constant
    return dict(Counter((row[0], row[1]) for row in rows))


@pytest.mark.parametrize(("mode", "end"), ENDS.items())
async def test_what_finds_no_room_ends(
    store: Store, observer: Observer, mode: str, end: str
) -> None:
    await ceiling(observer, "default", 2, mode)
    await fill(store, 5, partition_key="p")
    await fill(store, 1, partition_key="q")
    assert by("partition_key", await admit(store, 10)) == {"p": 2, "q": 1}
    assert await states(observer, "partition_key") == {
        ("p", "running"): 2,
        ("p", end): 3,
        ("q", "running"): 1,
    }
    [row] = await observer.fetch(
        "SELECT DISTINCT attempt, crash_attempt, fence, errors::text, lease_id, claimed_at_ms"
        " FROM headgate_job WHERE state::text = $1",
        end,
    )
    assert tuple(row) == (0, 0, 0, "[]", None, None)


@pytest.mark.parametrize("mode", ENDS)
async def test_nothing_ends_while_there_is_room(
    store: Store, observer: Observer, mode: str
) -> None:
    """A worker that asks for less than there is room for decides about no more than that."""
    await ceiling(observer, "default", 2, mode)
    await fill(store, 4)
    assert len(await admit(store, 1)) == 1
    assert await states(observer) == {("default", "running"): 1, ("default", "available"): 3}
    assert len(await admit(store, 1)) == 1
    assert ("default", "available") not in await states(observer)


async def test_only_the_ceiling_ends_a_job(store: Store, observer: Observer) -> None:
    """What another policy blocks, or another worker has to run, is not yet at the ceiling."""
    await ceiling(observer, "default", 1, "discard")
    await ceiling(observer, "paused", 1, "discard")
    await bucket(observer, "empty", 5, window_ms=HOUR_MS, tokens=0)
    await bucket(observer, "low", 5, window_ms=HOUR_MS, tokens=1)
    await fill(store, 1, queue="paused")
    await fill(store, 1)
    assert len(await admit(store, 5, "default", "paused")) == 2
    await pause(observer, "paused")
    await fill(store, 1, queue="paused")
    await fill(store, 1, fingerprint="bad")
    await quarantine(observer, "bad")
    await fill(store, 1, rate_class="empty")
    await fill(store, 1, rate_class="low", weight=2)
    await fill(store, 1, sticky_worker="other")
    await fill(store, 1, rate_class="low")
    await fill(store, 1)
    assert await admit(store, 5, "default", "paused") == []
    assert await states(observer) == {
        ("default", "running"): 1,
        ("default", "available"): 4,
        ("default", "archived"): 2,
        ("paused", "running"): 1,
        ("paused", "available"): 1,
    }
    low = "SELECT tokens FROM headgate_rate_bucket WHERE name = 'low'"
    assert await observer.fetchval(low) == 1


async def test_what_ends_holds_nobody_up(store: Store, observer: Observer) -> None:
    await ceiling(observer, "default", 1, "discard")
    for number in range(20):
        await fill(store, 1, partition_key=f"p{number:02}")
    assert len(await admit(store, 20)) == 20
    for number in range(20):
        await fill(store, 300, partition_key=f"p{number:02}", priority=5)
    await fill(store, 1, partition_key="z")
    assert by("partition_key", await admit(store, 1)) == {"z": 1}


async def test_a_flood_without_room_ends_in_bounded_pieces(
    store: Store, observer: Observer
) -> None:
    await ceiling(observer, "default", 1, "cancel_incoming")
    await fill(store, 1_500)
    assert len(await admit(store, 1)) == 1
    left = 1_499
    while left:
        assert await admit(store, 1) == []
        now = (await states(observer)).get(("default", "available"), 0)
        assert left - 1_000 <= now < left
        left = now


async def test_low_levels_end_too(store: Store, observer: Observer) -> None:
    await ceiling(observer, "default", 1, "discard")
    await fill(store, 1, priority=99)
    assert len(await admit(store, 1)) == 1
    for priority in range(2 * LEVELS):
        await fill(store, 1, priority=priority)
    for _ in range(4):
        await admit(store, 1)
    assert await states(observer) == {
        ("default", "running"): 1,
        ("default", "archived"): 2 * LEVELS,
    }


async def test_another_mode_counts_at_the_next_admission(store: Store, observer: Observer) -> None:
    await ceiling(observer, "default", 1)
    await fill(store, 3)
    [first] = await admit(store, 5)
    assert await states(observer) == {("default", "running"): 1, ("default", "available"): 2}
    await ceiling(observer, "default", 1, "cancel_running")
    [second] = await admit(store, 5)
    assert await state_of(observer, first.job_id) == "cancelled"
    await ceiling(observer, "default", 1, "discard")
    assert await admit(store, 5) == []
    assert await states(observer) == {
        ("default", "running"): 1,
        ("default", "archived"): 1,
        ("default", "cancelled"): 1,
    }
    await ceiling(observer, "default", 1, "queue")
    await fill(store, 1)
    assert await admit(store, 5) == []
    await finish(store, second)
    assert len(await admit(store, 5)) == 1


async def test_newcomers_take_the_places_of_the_oldest(store: Store, observer: Observer) -> None:
    await ceiling(observer, "default", 3, "cancel_running")
    await fill(store, 3, partition_key="p")
    await fill(store, 2, partition_key="q")
    first = [claim for _ in range(5) for claim in await admit(store, 1)]
    oldest, *healthy = (claim for claim in first if claim.partition_key == "p")
    await fill(store, 1, partition_key="p")
    await fill(store, 2, partition_key="q")
    claims = await admit(store, 10)
    assert by("partition_key", claims) == {"p": 1, "q": 2}
    row = await job_row(observer, oldest.job_id)
    assert row is not None
    assert (row["state"], row["fence"], row["lease_id"]) == ("cancelled", 2, None)
    assert [await state_of(observer, claim.job_id) for claim in healthy] == ["running"] * 2
    assert await states(observer, "partition_key") == {
        ("p", "running"): 3,
        ("p", "cancelled"): 1,
        ("q", "running"): 3,
        ("q", "cancelled"): 1,
    }


async def test_whoever_lost_its_place_learns_it_by_its_lease(
    store: Store, observer: Observer
) -> None:
    await ceiling(observer, "default", 1, "cancel_running")
    await bucket(observer, "api", 5, window_ms=HOUR_MS)
    await fill(store, 1, rate_class="api")
    [displaced] = await admit(store, 1)
    await fill(store, 1, rate_class="api")
    [newcomer] = await admit(store, 1)
    leases = [displaced.lease, newcomer.lease]
    assert await store.leases.renew(leases, LEASE_MS) == [displaced.job_id]
    report = Acknowledgement(lease=displaced.lease, outcome=Outcome.RETRY, error="e")
    [settlement] = await store.leases.acknowledge([report])
    assert settlement.state is None
    row = await job_row(observer, displaced.job_id)
    assert row is not None
    assert (row["state"], row["errors"], row["rate_charge"]) == ("cancelled", "[]", 0)
    # One place, given back once: the next one still has to displace somebody.
    await fill(store, 1)
    assert len(await admit(store, 5)) == 1
    assert (await states(observer))["default", "running"] == 1


async def test_one_call_displaces_nothing_of_its_own(store: Store, observer: Observer) -> None:
    await ceiling(observer, "default", 2, "cancel_running")
    for priority in range(40):
        await fill(store, 1, priority=priority)
    claims = await admit(store, 30)
    assert sorted(claim.priority for claim in claims) == [38, 39]
    assert (await states(observer))["default", "running"] == 2


async def test_a_newcomer_without_a_token_displaces_nobody(
    store: Store, observer: Observer
) -> None:
    await ceiling(observer, "default", 2, "cancel_running")
    await bucket(observer, "api", 5, window_ms=HOUR_MS, tokens=1)
    await fill(store, 2)
    assert len(await admit(store, 5)) == 2
    await fill(store, 1, rate_class="api", weight=2)
    await fill(store, 2, rate_class="api")
    assert len(await admit(store, 5)) == 1
    assert await states(observer) == {
        ("default", "running"): 2,
        ("default", "cancelled"): 1,
        ("default", "available"): 2,
    }


async def test_a_lowered_ceiling_holds_after_a_displacement(
    store: Store, observer: Observer
) -> None:
    await fill(store, 5)
    assert len(await admit(store, 5)) == 5
    await ceiling(observer, "default", 2, "cancel_running")
    await fill(store, 1)
    assert len(await admit(store, 5)) == 1
    assert await states(observer) == {("default", "running"): 2, ("default", "cancelled"): 4}


async def test_a_job_that_is_being_reported_is_not_displaced(
    store: Store, observer: Observer
) -> None:
    """Its place is still taken as far as anybody can know."""
    await ceiling(observer, "default", 1, "cancel_running")
    await fill(store, 1)
    [running] = await admit(store, 1)
    await fill(store, 1)
    async with observer.transaction():
        await observer.execute(
            "SELECT FROM headgate_job WHERE ulid = $1 FOR UPDATE", running.job_id
        )
        assert await admit(store, 5) == []
    assert await state_of(observer, running.job_id) == "running"
    assert len(await admit(store, 5)) == 1


async def test_a_place_that_another_gate_gives_away_is_waited_for(
    store: Store, observer: Observer
) -> None:
    await ceiling(observer, "default", 1, "cancel_running")
    await fill(store, 2)
    async with observer.transaction():
        await observer.execute("UPDATE headgate_inflight SET epoch = epoch + 1")
        waiting = asyncio.create_task(admit(store, 10))
        await someone_waits(observer)
    assert len(await waiting) == 1


async def test_many_gates_displace_within_the_ceiling(store: Store, observer: Observer) -> None:
    await ceiling(observer, "default", 3, "cancel_running")
    for key in "abcd":
        await fill(store, 40, partition_key=key)
    gates = [Gate(store.gate._database) for _ in range(6)]
    claimed = Counter[str]()
    for _ in range(4):
        for claims in await asyncio.gather(
            *(gate.admit(f"w{n}", ["default"], 5, 30_000) for n, gate in enumerate(gates))
        ):
            claimed.update(claim.job_id for claim in claims)
        running = await observer.fetch(
            "SELECT partition_key, count(*) FROM headgate_job WHERE state = 'running' GROUP BY 1"
        )
        assert {tuple(row) for row in running} == {(key, 3) for key in "abcd"}
    assert max(claimed.values()) == 1
    ended = sum(n for (_, state), n in (await states(observer)).items() if state == "cancelled")
    assert ended == len(claimed) - 12


@pytest.mark.parametrize("mode", [*ENDS, "cancel_running"])
async def test_counts_follow(store: Store, observer: Observer, mode: str) -> None:
    await ceiling(observer, "default", 1, mode)
    await fill(store, 3, retention_ms=HOUR_MS)
    for _ in range(3):
        await admit(store, 5)
    await store.upkeep.fold_ledger(1_000)
    counted = await observer.fetch("SELECT state::text, n FROM headgate_queue_count WHERE n <> 0")
    real = "SELECT state::text, count(*) FROM headgate_job GROUP BY 1"
    assert {tuple(row) for row in counted} == {tuple(row) for row in await observer.fetch(real)}
    flow = "SELECT sum(arrived), sum(completed) FROM headgate_queue_counter"
    assert tuple((await observer.fetch(flow))[0]) == (3, 0)


@pytest.mark.parametrize("mode", ENDS)
async def test_the_key_of_what_ends_is_free_again(
    store: Store, observer: Observer, mode: str
) -> None:
    await ceiling(observer, "default", 1, mode)
    await fill(store, 1)
    assert len(await admit(store, 1)) == 1
    keyed = Envelope(kind="mail", unique_key=b"k")
    [first] = await store.producer.enqueue([keyed])
    assert (await explained(store, first.id)).blocked_by == "concurrency_limit"
    await admit(store, 1)
    assert await state_of(observer, first.id) == ENDS[mode]
    await store.producer.enqueue([keyed])
