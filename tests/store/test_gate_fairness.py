"""Turns: priority is strict, partitions of a level take turns, nobody waits for ever."""

import pytest

from headgate.model.job import Claim
from headgate.queries.gate.walk import LEVELS
from headgate.store.admissions import Call
from headgate.store.gate import Gate
from headgate.store.store import Store
from tests.store.backlog import admit, bucket, by, fill
from tests.store.rows import Observer

QUEUES = ("default",)


@pytest.fixture(params=["cold", "loaded", "steady"])
def either(request: pytest.FixtureRequest, store: Store) -> Store:
    """A store whose gate begins with the complete statement, or with one of the shortcuts."""
    if request.param != "cold":
        memory = store.gate._remember(Call("worker", QUEUES, 1, 1))
        memory.came_short = False
        memory.level = 0 if request.param == "steady" else None
    return store


async def repeatedly(store: Store, calls: int, capacity: int) -> list[Claim]:
    return [claim for _ in range(calls) for claim in await admit(store, capacity)]


async def test_a_flood_takes_no_more_than_its_turn(either: Store) -> None:
    await fill(either, 5_000, partition_key="flood")
    await fill(either, 3, partition_key="b")
    await fill(either, 3, partition_key="c")
    assert by("partition_key", await admit(either, 9)) == {"flood": 3, "b": 3, "c": 3}


async def test_turns_are_kept_from_call_to_call(either: Store) -> None:
    await fill(either, 100, partition_key="flood")
    await fill(either, 3, partition_key="b")
    await fill(either, 3, partition_key="c")
    claims = await repeatedly(either, 6, 1)
    assert by("partition_key", claims) == {"flood": 2, "b": 2, "c": 2}


async def test_spare_capacity_goes_to_whoever_has_work(either: Store) -> None:
    await fill(either, 500, partition_key="flood")
    await fill(either, 3, partition_key="b")
    await fill(either, 3, partition_key="c")
    claims = await admit(either, 100)
    assert by("partition_key", claims) == {"flood": 94, "b": 3, "c": 3}


async def test_many_partitions_all_get_a_turn_at_capacity_one(either: Store) -> None:
    partitions = 300
    for number in range(partitions):
        await fill(either, 2, partition_key=f"t{number:05}")
    claims = await repeatedly(either, partitions, 1)
    assert len(by("partition_key", claims)) == partitions


@pytest.mark.parametrize(("partitions", "capacity"), [(2, 3), (3, 7), (4, 10), (7, 5)])
async def test_odd_jobs_go_round_too(either: Store, partitions: int, capacity: int) -> None:
    for number in range(partitions):
        await fill(either, 200, partition_key=f"t{number}")
    claims = await repeatedly(either, partitions, capacity)
    assert set(by("partition_key", claims).values()) == {capacity}


async def test_priority_comes_before_turns(either: Store) -> None:
    await fill(either, 3, partition_key="p", priority=5)
    await fill(either, 3, partition_key="q", priority=1)
    await fill(either, 3, partition_key="r", priority=1)
    claims = await admit(either, 5)
    assert [(claim.priority, claim.partition_key) for claim in claims[:3]] == [(5, "p")] * 3
    assert by("partition_key", claims) == {"p": 3, "q": 1, "r": 1}


async def test_no_job_overtakes_a_higher_priority_of_an_uneven_level(either: Store) -> None:
    await fill(either, 40, partition_key="a", priority=5)
    for key in "bcde":
        await fill(either, 1, partition_key=key, priority=5)
    for number in range(30):
        await fill(either, 5, partition_key=f"t{number:02}")
    assert by("priority", await admit(either, 20)) == {5: 20}
    assert by("priority", await admit(either, 40)) == {5: 24, 0: 16}


async def test_each_level_has_a_rotation_of_its_own(either: Store) -> None:
    for number in range(4):
        await fill(either, 10, partition_key=f"t{number}")
    served = []
    for _ in range(4):
        await fill(either, 1, partition_key="t3", priority=9)
        served += await admit(either, 2)
    assert by("partition_key", [claim for claim in served if claim.priority == 0]) == {
        "t0": 1,
        "t1": 1,
        "t2": 1,
        "t3": 1,
    }


async def test_classes_of_one_partition_do_not_hide_each_other(either: Store) -> None:
    classes = [f"c{number:02}" for number in range(12)]
    for name in classes:
        await fill(either, 1, rate_class=name)
    served = []
    for _ in range(3 * len(classes)):
        [claim] = await admit(either, 1)
        served.append(claim)
        await fill(either, 1, rate_class=claim.rate_class)
    assert set(by("rate_class", served)) == set(classes)


async def test_a_partition_of_many_classes_gets_one_turn(either: Store) -> None:
    for number in range(5):
        await fill(either, 20, partition_key="many", rate_class=f"c{number}")
    await fill(either, 50, partition_key="single")
    claims = await repeatedly(either, 4, 10)
    assert by("partition_key", claims) == {"many": 20, "single": 20}


async def test_blocked_priorities_hide_nothing(store: Store, observer: Observer) -> None:
    await bucket(observer, "empty", 1, window_ms=3_600_000, tokens=0)
    for priority in range(1, 4 * LEVELS + 4):
        await fill(store, 1, priority=priority, rate_class="empty")
    await fill(store, 1)
    calls = 1
    while not (claims := await admit(store, 5)):
        calls += 1
        assert calls < 5
    assert by("priority", claims) == {0: 1}


async def test_partitions_of_a_scarce_class_all_get_a_turn(
    store: Store, observer: Observer
) -> None:
    await bucket(observer, "scarce", 5, window_ms=3_600_000)
    for number in range(28):
        await fill(store, 10, partition_key=f"t{number:02}", rate_class="scarce")
    claims = []
    for _ in range(12):
        claims += await admit(store, 10)
        await observer.execute("UPDATE headgate_rate_bucket SET tokens = burst")
    assert len(claims) == 60
    assert set(by("partition_key", claims).values()) == {2, 3}


async def test_lower_levels_keep_their_turns_while_a_higher_one_is_served(store: Store) -> None:
    for number in range(30):
        await fill(store, 10, partition_key=f"t{number:02}")
    claims = []
    for _ in range(15):
        await fill(store, 9, partition_key="high", priority=5)
        claims += await admit(store, 10)
    low = [claim for claim in claims if claim.priority == 0]
    assert len(by("partition_key", low)) == len(low) == 15


async def test_what_lies_behind_many_blocked_lanes_gets_its_turn(
    store: Store, observer: Observer
) -> None:
    await bucket(observer, "empty", 1, window_ms=3_600_000, tokens=0)
    await fill(store, 20, partition_key="a")
    await fill(store, 20, partition_key="z")
    await observer.execute(
        "INSERT INTO headgate_active_partition (queue, partition_key, rate_class)"
        " SELECT 'default', 't' || lpad(n::text, 5, '0'), 'empty' FROM generate_series(1, 5000) n"
    )
    claims = await repeatedly(store, 12, 1)
    assert by("partition_key", claims)["z"] >= 4


async def test_a_walk_through_blocked_lanes_goes_on(store: Store, observer: Observer) -> None:
    await bucket(observer, "empty", 1, window_ms=3_600_000, tokens=0)
    await fill(store, 1, partition_key="z")
    await observer.execute(
        "INSERT INTO headgate_active_partition (queue, partition_key, rate_class)"
        " SELECT 'default', 't' || lpad(n::text, 5, '0'), 'empty' FROM generate_series(1, 9000) n"
    )
    calls = 1
    while not (claims := await admit(store, 1)):
        calls += 1
        assert calls < 4
    assert by("partition_key", claims) == {"z": 1}


async def test_two_gates_serve_everyone(store: Store, observer: Observer) -> None:
    for number in range(20):
        await fill(store, 10, partition_key=f"t{number:02}")
    other = Gate(store.gate._database)
    claims = []
    for _ in range(10):
        claims += await admit(store, 2)
        claims += await other.admit("other", QUEUES, 2, 30_000)
    assert len(claims) == 40
    assert max(by("partition_key", claims).values()) <= 3
