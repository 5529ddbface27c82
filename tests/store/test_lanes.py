"""The registry of lanes: producers do not wait for each other, and no job is ever stranded."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import asyncpg
import pytest
from sqlalchemy import Executable, Integer, Text, column, select, values

from headgate.model.envelope import Envelope
from headgate.queries.gate.prune import delete_lanes, lock_lanes
from headgate.queries.lanes import LANE, register
from headgate.queries.literals import number
from headgate.store.compilation import Compiler
from headgate.store.enqueueing import Batch, short_insert
from headgate.store.store import Store
from tests.store.backlog import fill, someone_waits
from tests.store.rows import Observer, assert_lanes, lanes

Lane = tuple[str, str, int, str, str]
ONE: Lane = ("default", "", 0, "", "")

_INSERT_JOB = """
INSERT INTO headgate_job (id, ulid, kind, payload, fingerprint, enqueued_at_ms, scheduled_at_ms)
SELECT id, 'job' || id, 'mail', '', '', 0, 0
FROM (SELECT coalesce(max(id), 0) + 1 AS id FROM headgate_job) AS next
"""


class Producer:
    """A session that registers lanes and holds them as long as its transaction lasts."""

    def __init__(self, connection: "asyncpg.Connection[Any]") -> None:
        self.connection = connection
        self._compile = Compiler("public")

    async def register(self, *wanted: Lane, at_commit: bool = False) -> None:
        kinds = {name: Integer if name == "priority" else Text for name in LANE}
        source = (
            values(*(column(name, kind) for name, kind in kinds.items()), name="given")
            .data(list(wanted))
            .alias("given")
        )
        parts = register(source, at_commit=at_commit)
        await self.run(select(number(1)).add_cte(*parts), {})

    async def run(self, statement: Executable, parameters: dict[str, Any]) -> list[Any]:
        compiled = self._compile(statement)
        return await self.connection.fetch(compiled.sql, *compiled.arguments(parameters))


@pytest.fixture
async def producers(headgate_database: str) -> AsyncIterator[Sequence[Producer]]:
    """Three sessions, each in a transaction that ends with the test."""
    connections = [await asyncpg.connect(headgate_database) for _ in range(3)]
    for connection in connections:
        await connection.execute("SET lock_timeout = '5s'")
        await connection.execute("BEGIN")
    yield [Producer(connection) for connection in connections]
    for connection in connections:
        await connection.close()


def drained(*wanted: Lane) -> dict[str, Any]:
    columns = zip(*wanted, strict=True)
    return {f"drained_{name}_array": column for name, column in zip(LANE, columns, strict=True)}


async def test_producers_share_an_existing_lane(
    store: Store, observer: Observer, producers: Sequence[Producer]
) -> None:
    await fill(store, 1)
    version = "SELECT ctid, xmax = 0 FROM headgate_active_partition"
    before = await observer.fetchrow(version)
    for producer in producers:
        await producer.register(ONE, ONE)
    for producer in producers:
        await producer.connection.execute("COMMIT")
    after = await observer.fetchrow(version)
    assert before is not None
    assert after is not None
    # Nothing was written but the marks of the locks.
    assert after["ctid"] == before["ctid"]


async def test_the_second_to_add_a_lane_waits_and_then_holds_it(
    observer: Observer, producers: Sequence[Producer]
) -> None:
    first, second, third = producers
    await first.register(ONE)
    adding = asyncio.create_task(second.register(ONE))
    await someone_waits(observer, first.connection)
    await first.connection.execute("COMMIT")
    await adding
    # It must hold the lane now, but not against others that come along.
    await third.register(ONE)
    await third.connection.execute("COMMIT")
    free = "SELECT FROM headgate_active_partition FOR UPDATE SKIP LOCKED"
    assert len(await observer.fetch(free)) == 0
    await second.connection.execute("COMMIT")
    assert len(await observer.fetch(free)) == 1


async def test_a_lane_whose_first_producer_gives_up_is_still_added(
    observer: Observer, producers: Sequence[Producer]
) -> None:
    first, second, _ = producers
    await first.register(ONE)
    adding = asyncio.create_task(second.register(ONE))
    await someone_waits(observer, first.connection)
    await first.connection.execute("ROLLBACK")
    await adding
    await second.connection.execute("COMMIT")
    assert await lanes(observer) == {ONE}


async def test_lanes_are_added_in_one_order(
    observer: Observer, producers: Sequence[Producer]
) -> None:
    several: list[Lane] = [("q", "", priority, key, "") for priority in (1, 2) for key in "aBäb"]
    first, second, _ = producers
    await first.register(*several)
    adding = asyncio.create_task(second.register(*reversed(several)))
    await someone_waits(observer, first.connection)
    await first.connection.execute("COMMIT")
    await adding
    await second.connection.execute("COMMIT")
    assert await lanes(observer) == set(several)


async def test_a_new_lane_brings_the_row_of_its_partition(
    observer: Observer, producers: Sequence[Producer]
) -> None:
    producer = producers[0]
    await producer.register(("q", "", 0, "p", ""), ("q", "w", 1, "p", "c"), ("q", "", 0, "r", ""))
    await producer.connection.execute("COMMIT")
    rows = await observer.fetch("SELECT queue, partition_key, epoch FROM headgate_inflight")
    assert sorted(map(tuple, rows)) == [("q", "p", 0), ("q", "r", 0)]


async def test_an_announced_lane_is_in_nobodys_way_until_the_commit(
    observer: Observer, producers: Sequence[Producer]
) -> None:
    first, second, third = producers
    await first.register(ONE, at_commit=True)
    await second.register(ONE)
    await second.connection.execute("COMMIT")
    await third.register(ONE, at_commit=True)
    await third.connection.execute("COMMIT")
    await first.connection.execute("COMMIT")
    assert await lanes(observer) == {ONE}
    assert await observer.fetch("SELECT FROM headgate_new_lane") == []


async def test_lanes_that_are_announced_crosswise_do_not_deadlock(
    observer: Observer, producers: Sequence[Producer]
) -> None:
    several: list[Lane] = [("q", "", priority, key, "") for priority in (1, 2) for key in "aBäb"]
    first, second, third = producers
    for lane in several:
        await first.register(lane, at_commit=True)
    for lane in reversed(several):
        await second.register(lane, at_commit=True)
    # In the middle of the order, so that a commit waits with some of its lanes in hand.
    await third.register(several[4])
    commits = [
        asyncio.create_task(producer.connection.execute("COMMIT")) for producer in (first, second)
    ]
    await someone_waits(observer, third.connection)
    await third.connection.execute("COMMIT")
    await asyncio.gather(*commits)
    assert await lanes(observer) == set(several)
    partitions = await observer.fetch("SELECT queue, partition_key FROM headgate_inflight")
    assert {tuple(row) for row in partitions} == {("q", key) for key in "aBäb"}


async def test_a_lane_that_is_announced_and_taken_back_leaves_nothing(
    observer: Observer, producers: Sequence[Producer]
) -> None:
    await producers[0].register(ONE, at_commit=True)
    await producers[0].connection.execute("ROLLBACK")
    assert await lanes(observer) == set()
    assert await observer.fetch("SELECT FROM headgate_new_lane") == []


@pytest.mark.parametrize("way", ["registered", "announced", "short"])
async def test_a_prune_leaves_a_pinned_lane(
    store: Store, observer: Observer, producers: Sequence[Producer], way: str
) -> None:
    await fill(store, 1)
    await observer.execute("DELETE FROM headgate_job")
    pruning, producer, _ = producers
    if way == "short":
        short = short_insert(Batch.of([Envelope(kind="mail")]), None)
        assert short is not None
        await producer.run(*short)
    else:
        await producer.register(ONE, at_commit=way == "announced")
    assert await pruning.run(lock_lanes(), drained(ONE)) == []


async def test_a_prune_leaves_a_lane_that_has_work_again(
    store: Store, observer: Observer, producers: Sequence[Producer]
) -> None:
    await fill(store, 1)
    pruning = producers[0]
    assert len(await pruning.run(lock_lanes(), drained(ONE))) == 1
    await pruning.run(delete_lanes(), drained(ONE))
    await pruning.connection.execute("COMMIT")
    assert await lanes(observer) == {ONE}


async def test_a_producer_that_meets_a_prune_adds_the_lane_again(
    store: Store, observer: Observer, producers: Sequence[Producer]
) -> None:
    await fill(store, 1)
    await observer.execute("DELETE FROM headgate_job")
    pruning, producer, _ = producers
    assert len(await pruning.run(lock_lanes(), drained(ONE))) == 1
    registering = asyncio.create_task(producer.register(ONE))
    await someone_waits(observer, pruning.connection)
    await pruning.run(delete_lanes(), drained(ONE))
    await pruning.connection.execute("COMMIT")
    await registering
    await producer.connection.execute(_INSERT_JOB)
    await producer.connection.execute("COMMIT")
    assert await lanes(observer) == {ONE}
    await assert_lanes(observer)
