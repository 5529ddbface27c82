"""Queues share the capacity by their weights, from now on and not for the past."""

import asyncio

import pytest

from headgate.store.gate import Gate
from headgate.store.store import Store
from tests.store.backlog import admit, by, fill, pause, weigh
from tests.store.rows import Observer


async def both(store: Store, capacity: int, *, calls: int = 1) -> dict[str, int]:
    claims = [claim for _ in range(calls) for claim in await admit(store, capacity, "a", "z")]
    return by("queue", claims)


async def test_weights_share_the_capacity_whatever_the_priority(
    store: Store, observer: Observer
) -> None:
    await weigh(observer, "a", 3)
    await fill(store, 50, queue="a")
    await fill(store, 50, queue="z", priority=99)
    assert await both(store, 8) == {"a": 6, "z": 2}
    assert await both(store, 8) == {"a": 6, "z": 2}


async def test_a_new_weight_counts_at_once(store: Store, observer: Observer) -> None:
    await weigh(observer, "a", 3)
    await fill(store, 50, queue="a")
    await fill(store, 50, queue="z")
    assert await both(store, 8) == {"a": 6, "z": 2}
    await weigh(observer, "a", 1)
    assert await both(store, 4) == {"a": 2, "z": 2}


async def test_equal_queues_take_turns_at_capacity_one(store: Store) -> None:
    await fill(store, 20, queue="a")
    await fill(store, 20, queue="z")
    assert await both(store, 1, calls=8) == {"a": 4, "z": 4}


@pytest.mark.parametrize("capacity", [1, 4])
async def test_a_queue_that_was_idle_catches_up_nothing(
    store: Store, observer: Observer, capacity: int
) -> None:
    await weigh(observer, "z", 1)
    await fill(store, 200, queue="a")
    assert await both(store, capacity, calls=40 // capacity) == {"a": 40}
    await fill(store, 200, queue="z")
    assert await both(store, capacity, calls=20 // capacity) == {"a": 10, "z": 10}


async def test_a_queue_that_trickled_catches_up_nothing(store: Store) -> None:
    await fill(store, 400, queue="a")
    for _ in range(10):
        await fill(store, 1, queue="z")
        assert (await both(store, 8))["z"] == 1
    await fill(store, 100, queue="z")
    assert await both(store, 8) == {"a": 4, "z": 4}


async def test_a_queue_that_was_paused_catches_up_nothing(store: Store, observer: Observer) -> None:
    await fill(store, 100, queue="a")
    await fill(store, 100, queue="z")
    await pause(observer, "z")
    assert await both(store, 10, calls=4) == {"a": 40}
    await pause(observer, "z", paused=False)
    assert await both(store, 10) == {"a": 5, "z": 5}


async def test_the_only_queue_with_work_takes_all(store: Store, observer: Observer) -> None:
    await weigh(observer, "a", 9)
    await fill(store, 50, queue="z")
    assert await both(store, 10) == {"z": 10}
    assert await both(store, 10) == {"z": 10}


async def test_partitions_take_turns_within_each_queue(store: Store) -> None:
    for key in "pq":
        await fill(store, 20, queue="a", partition_key=key)
    for key in "rst":
        await fill(store, 20, queue="z", partition_key=key)
    claims = [claim for _ in range(3) for claim in await admit(store, 8, "a", "z")]
    assert by("queue", claims) == {"a": 12, "z": 12}
    assert by("partition_key", claims) == {"p": 6, "q": 6, "r": 4, "s": 4, "t": 4}


async def test_a_new_process_goes_on_where_another_stood(store: Store, observer: Observer) -> None:
    await weigh(observer, "default", 1)
    for key in "abcde":
        await fill(store, 5, partition_key=key)
    served = []
    for _ in range(5):
        gate = Gate(store.gate._database)
        served += await gate.admit("worker", ["default"], 1, 1_000)
        await gate.close()
    assert by("partition_key", served) == dict.fromkeys("abcde", 1)


async def test_an_admission_does_not_wait_for_others_to_know_of_it(
    store: Store, observer: Observer
) -> None:
    await weigh(observer, "default", 1)
    for key in "ab":
        await fill(store, 5, partition_key=key)
    async with observer.transaction():
        await observer.execute("LOCK TABLE headgate_queue_state IN SHARE MODE")
        async with asyncio.timeout(5):
            assert len(await admit(store, 2)) == 2
            assert len(await admit(store, 2)) == 2
    await store.gate.close()
    recorded = "SELECT rotation_cursor FROM headgate_queue_state WHERE queue = 'default'"
    assert await observer.fetchval(recorded)
