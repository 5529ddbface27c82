"""Partitions of a queue: which of them are noisy, how the others stand, and the list of them."""

import random

import pytest

from headgate.model.backlog import noisy_partition_keys
from headgate.model.errors import InvalidRequest
from headgate.model.page import PageRequest
from headgate.model.queue import Partition, QueueStatistics
from headgate.store.store import Store
from tests.store.backlog import fill
from tests.store.rows import Observer, now_ms
from tests.store.test_queues import MINUTE_MS, fold, queues

_RUN = """
INSERT INTO headgate_job (ulid, kind, payload, fingerprint, queue, partition_key, state, lease_id,
  enqueued_at_ms, scheduled_at_ms)
SELECT $1 || partition || '-' || number, 'mail', '', '', $1, partition, 'running', 'lease', 0, 0
FROM unnest($2::text[], $3::int[]) AS given(partition, running),
  generate_series(1, running) AS number
"""

_WAIT = """
INSERT INTO headgate_job (ulid, kind, payload, fingerprint, queue, partition_key,
  enqueued_at_ms, scheduled_at_ms)
SELECT $1 || '-' || number, 'mail', '', '', $1, 'p' || lpad(number::text, 5, '0'), 0,
  1700000000000 - number * 1000
FROM generate_series(1, $2::int) AS number
"""

_LANES = """
INSERT INTO headgate_active_partition (queue, partition_key)
SELECT queue, partition_key FROM headgate_job WHERE queue = $1
"""

_COUNTER = """
INSERT INTO headgate_partition_counter (queue, partition_key, bucket_ms, arrived, completed)
VALUES ($1, $2, $3, $4, $5)
"""


async def run(observer: Observer, queue: str, loads: dict[str, int]) -> None:
    """So many running jobs in each partition."""
    await observer.execute(_RUN, queue, list(loads), list(loads.values()))


async def one(store: Store, queue: str = "q") -> QueueStatistics:
    return (await queues(store))[queue]


async def test_a_flood_is_set_apart(store: Store, observer: Observer) -> None:
    now = await now_ms(observer)
    await run(observer, "q", {"flood": 9, "small": 1, "other": 2})
    await fill(store, 2_000, queue="q", partition_key="flood", scheduled_at_ms=now - 100_000)
    await fill(store, 5, queue="q", partition_key="small", scheduled_at_ms=now - 7_000)
    await fill(store, 7, queue="q", partition_key="other")
    queue = await one(store)
    assert queue.unfinished_jobs == 2_024
    assert queue.quiet_groups.noisy_partitions == 1
    assert queue.oldest_available_ms is not None
    assert queue.quiet_groups.oldest_available_ms is not None
    assert queue.oldest_available_ms >= 100_000
    assert 7_000 <= queue.quiet_groups.oldest_available_ms < 100_000
    assert not queue.quiet_groups.approximate


@pytest.mark.parametrize("folded", [False, True])
async def test_rates_without_the_noisy_ones(store: Store, observer: Observer, folded: bool) -> None:
    minute = await now_ms(observer) // MINUTE_MS * MINUTE_MS
    await fill(store, 30, queue="q", partition_key="flood")
    await fill(store, 12, queue="q", partition_key="small")
    if folded:
        await fold(store)
    await observer.execute(
        "UPDATE headgate_job SET state = 'running', lease_id = 'lease' WHERE id IN ("
        "SELECT id FROM headgate_job WHERE partition_key = 'flood' LIMIT 9)"
    )
    for partition, arrived, completed in (("flood", 170, 400), ("small", 8, 120)):
        values = (partition, minute - MINUTE_MS, arrived, completed)
        await observer.execute(_COUNTER, "q", *values)
    await observer.execute(
        "INSERT INTO headgate_queue_counter VALUES ('q', $1, 178, 520)", minute - MINUTE_MS
    )
    queue = await one(store)
    if await now_ms(observer) >= minute + MINUTE_MS:
        pytest.skip("a minute began meanwhile")
    seconds = 220 / queue.arrival_rate
    assert queue.quiet_groups.noisy_partitions == 1
    assert queue.drain_rate == pytest.approx(520 / seconds)
    assert queue.quiet_groups.arrival_rate == pytest.approx(20 / seconds)
    assert queue.quiet_groups.drain_rate == pytest.approx(120 / seconds)
    # Without the flood 12 jobs are left, and 100 go in the time that was counted.
    assert queue.quiet_groups.time_to_drain_ms == pytest.approx(120 * seconds, abs=1)


@pytest.mark.parametrize(
    ("running", "noisy"),
    [
        ([500], 0),
        ([1, 0], 0),
        ([2, 0], 1),
        ([4, 2], 0),
        ([5, 2], 1),
        ([9, 1, 2], 1),
        ([3, 3, 3], 0),
    ],
)
async def test_how_much_is_noise(
    store: Store, observer: Observer, running: list[int], noisy: int
) -> None:
    await run(observer, "q", {f"p{place}": load for place, load in enumerate(running)})
    for place, load in enumerate(running):
        if not load:
            await fill(store, 1, queue="q", partition_key=f"p{place}")
    assert (await one(store)).quiet_groups.noisy_partitions == noisy


@pytest.mark.parametrize("seed", range(12))
async def test_noise_is_judged_by_the_rule(store: Store, observer: Observer, seed: int) -> None:
    dice = random.Random(seed)
    expected = {}
    for number in range(12):
        loads = {
            f"p{place}": dice.choice([0, 1, 2, 3, dice.randrange(20)])
            for place in range(dice.randrange(7))
        }
        queue = f"q{number}"
        await run(observer, queue, loads)
        idle = [partition for partition, load in loads.items() if not load]
        for partition in idle:
            await fill(store, 1, queue=queue, partition_key=partition)
        if loads:
            expected[queue] = len(noisy_partition_keys(list(loads.items())))
    if seed % 2:
        await fold(store)
    found = {
        name: each.quiet_groups.noisy_partitions for name, each in (await queues(store)).items()
    }
    assert found == expected


async def test_a_partition_that_was_busy_a_minute_ago_is_a_peer(
    store: Store, observer: Observer
) -> None:
    await run(observer, "q", {"flood": 5})
    assert (await one(store)).quiet_groups.noisy_partitions == 0
    minute = await now_ms(observer) // MINUTE_MS * MINUTE_MS
    await observer.execute(_COUNTER, "q", "gone", minute - 2 * MINUTE_MS, 1, 1)
    assert (await one(store)).quiet_groups.noisy_partitions == 0
    await observer.execute(_COUNTER, "q", "recent", minute, 1, 1)
    assert (await one(store)).quiet_groups.noisy_partitions == 1


@pytest.mark.parametrize("folded", [False, True])
async def test_more_partitions_than_are_looked_at(
    store: Store, observer: Observer, folded: bool
) -> None:
    await observer.execute(_WAIT, "q", 1_000)
    await observer.execute(_LANES, "q")
    if folded:
        await fold(store)
    queue = await one(store)
    assert not queue.quiet_groups.approximate
    oldest = 1_700_000_000_000 - 1_000_000
    age = await now_ms(observer) - oldest
    assert queue.oldest_available_ms is not None
    assert age - 60_000 < queue.oldest_available_ms <= age
    await fill(store, 1, queue="q", partition_key="z")
    queue = await one(store)
    assert queue.quiet_groups.approximate
    assert queue.by_state == {"available": 1_001}


async def test_base_rows_that_were_emptied_since_hide_nothing(
    store: Store, observer: Observer
) -> None:
    """So many rows are read that the partition with a job is not among them: that is said."""
    await observer.execute(_WAIT, "q", 5_100)
    await fold(store)
    await observer.execute("DELETE FROM headgate_partition_counter")
    await observer.execute("DELETE FROM headgate_job WHERE partition_key <> 'p05100'")
    queue = await one(store)
    assert queue.by_state == {"available": 1}
    assert queue.quiet_groups.approximate


async def partitions(store: Store, queue: str, limit: int) -> list[Partition]:
    found: list[Partition] = []
    cursor: int | None = 0
    while cursor is not None:
        page = await store.queues.partitions(queue, PageRequest(limit, cursor))
        assert len(page.items) == limit or page.next_cursor is None
        found += page.items
        cursor = page.next_cursor
    return found


async def test_partitions_with_available_jobs(store: Store, observer: Observer) -> None:
    await fill(store, 1, queue="q")
    await fill(store, 2, queue="q", partition_key="t1")
    await fill(store, 3, queue="q", partition_key="later", pending=True)
    await fill(store, 3, queue="q2", partition_key="t2")
    await run(observer, "q", {"busy": 2})
    expected = [Partition("", 0, 1), Partition("t1", 0, 2)]
    assert await partitions(store, "q", 200) == expected
    await fold(store)
    assert await partitions(store, "q", 200) == expected
    assert await partitions(store, "q", 1) == expected
    assert await partitions(store, "nobody's", 200) == []
    assert await partitions(store, "\0", 200) == []


@pytest.mark.parametrize("seed", range(6))
async def test_pages_of_partitions_are_the_groups_of_the_jobs(
    store: Store, observer: Observer, seed: int
) -> None:
    dice = random.Random(seed)
    for _ in range(4):
        for partition in dice.sample("abcdefghijklmnop", 8):
            await fill(store, dice.randrange(1, 4), queue="q", partition_key=partition)
        if dice.random() < 0.5:
            await fold(store)
        gone = dice.sample("abcdefghijklmnop", 5)
        await observer.execute("DELETE FROM headgate_job WHERE partition_key = ANY($1)", gone)
        if dice.random() < 0.3:
            await fold(store)
    rows = await observer.fetch(
        "SELECT partition_key, count(*) AS n FROM headgate_job GROUP BY 1 ORDER BY 1"
    )
    expected = [Partition(row["partition_key"], 0, row["n"]) for row in rows]
    for limit in (1, 2, 3, 5, 200):
        assert await partitions(store, "q", limit) == expected


async def test_a_page_of_partitions_has_a_size(store: Store) -> None:
    for queue in ("q", "\0"):
        with pytest.raises(InvalidRequest, match="limit must be between 1 and 200"):
            await store.queues.partitions(queue, PageRequest(0))
