"""Ceilings: never more running jobs of a partition than allowed, and nothing else held up."""

import asyncio

import pytest

from headgate.store import gate as gate_module
from headgate.store.gate import Gate
from headgate.store.store import Store
from tests.store.backlog import admit, bucket, by, ceiling, fill, finish, someone_waits
from tests.store.conftest import OpenStore
from tests.store.rows import Observer

_HESITATING_CLOCK = """
CREATE SCHEMA hesitating;
CREATE FUNCTION hesitating.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_lock_shared(1), pg_advisory_unlock_shared(1);
  RETURN pg_catalog.clock_timestamp();
END $$
"""


async def test_each_partition_runs_up_to_the_ceiling(store: Store, observer: Observer) -> None:
    await ceiling(observer, "default", 2)
    await fill(store, 5_000, partition_key="t1")
    await fill(store, 5, partition_key="t2")
    claims = await admit(store, 10)
    assert by("partition_key", claims) == {"t1": 2, "t2": 2}
    assert await admit(store, 10) == []
    await finish(store, claims[0])
    [replacement] = await admit(store, 10)
    assert replacement.partition_key == claims[0].partition_key


async def test_lanes_of_a_partition_share_its_room(store: Store, observer: Observer) -> None:
    await ceiling(observer, "default", 3)
    await fill(store, 5, priority=1)
    await fill(store, 5, rate_class="unlimited", priority=1)
    await fill(store, 5)
    await fill(store, 5, sticky_worker="worker")
    assert by("priority", await admit(store, 20)) == {1: 3}


async def test_a_ceiling_holds_in_its_queue_only(store: Store, observer: Observer) -> None:
    await ceiling(observer, "a", 1)
    await fill(store, 5, queue="a")
    await fill(store, 5, queue="z")
    assert by("queue", await admit(store, 20, "a", "z")) == {"a": 1, "z": 5}


async def test_a_new_ceiling_counts_what_runs_already(store: Store, observer: Observer) -> None:
    await fill(store, 20)
    running = await admit(store, 3)
    await ceiling(observer, "default", 5)
    assert len(await admit(store, 20)) == 2
    await ceiling(observer, "default", 2)
    assert await admit(store, 20) == []
    await finish(store, *running)
    assert await admit(store, 20) == []
    await ceiling(observer, "default", 4)
    assert len(await admit(store, 20)) == 2


async def test_saturated_partitions_hide_nothing(store: Store, observer: Observer) -> None:
    await ceiling(observer, "default", 1)
    for number in range(40):
        await fill(store, 2, partition_key=f"t{number:02}")
    assert len(await admit(store, 100)) == 40
    await fill(store, 1, partition_key="z")
    assert by("partition_key", await admit(store, 1)) == {"z": 1}


async def test_a_job_without_a_token_takes_no_room(store: Store, observer: Observer) -> None:
    await ceiling(observer, "default", 1)
    await bucket(observer, "api", 1, window_ms=3_600_000)
    await fill(store, 2, partition_key="p", rate_class="api", priority=1)
    await fill(store, 1, partition_key="q", rate_class="api")
    await fill(store, 1, partition_key="q")
    assert sorted((claim.partition_key, claim.rate_class) for claim in await admit(store, 20)) == [
        ("p", "api"),
        ("q", ""),
    ]


async def test_claims_raise_the_epoch_of_their_partition_alone(
    store: Store, observer: Observer
) -> None:
    await ceiling(observer, "default", 2)
    await fill(store, 1, partition_key="p")
    await fill(store, 1, partition_key="q", queue="free")
    await admit(store, 5, "default", "free")
    rows = await observer.fetch("SELECT partition_key, epoch FROM headgate_inflight")
    assert {row["partition_key"]: row["epoch"] for row in rows} == {"p": 1, "q": 0}


async def test_a_partition_that_another_gate_holds_is_waited_for(
    store: Store, observer: Observer
) -> None:
    await ceiling(observer, "default", 2)
    await fill(store, 5, partition_key="p")
    await fill(store, 5, partition_key="q")
    async with observer.transaction():
        await observer.execute(
            "UPDATE headgate_inflight SET epoch = epoch + 1 WHERE partition_key = 'p'"
        )
        waiting = asyncio.create_task(admit(store, 10))
        await someone_waits(observer)
        # What was free has started before the wait.
        started = "SELECT partition_key FROM headgate_job WHERE state = 'running'"
        assert {row[0] for row in await observer.fetch(started)} == {"q"}
    assert by("partition_key", await waiting) == {"p": 2, "q": 2}


async def test_nobody_waits_long_for_a_partition(
    store: Store, observer: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_module, "_PATIENCE", (("lock_timeout", "50"),))
    await ceiling(observer, "default", 2)
    await fill(store, 5, partition_key="p")
    async with observer.transaction():
        await observer.execute("SELECT FROM headgate_inflight FOR UPDATE")
        assert await admit(store, 10) == []
        await fill(store, 5, partition_key="q")
        assert by("partition_key", await admit(store, 10)) == {"q": 2}


async def test_a_lost_row_of_a_partition_is_made_good(store: Store, observer: Observer) -> None:
    await ceiling(observer, "default", 2)
    await fill(store, 5)
    await observer.execute("DELETE FROM headgate_inflight")
    assert len(await admit(store, 5)) == 2


async def test_many_gates_break_no_ceiling(store: Store, observer: Observer) -> None:
    await ceiling(observer, "default", 3)
    for key in "abcd":
        await fill(store, 30, partition_key=key)
    gates = [Gate(store.gate._database) for _ in range(8)]
    for _ in range(4):
        claims = await asyncio.gather(
            *(gate.admit(f"w{n}", ["default"], 5, 30_000) for n, gate in enumerate(gates))
        )
        running = await observer.fetch(
            "SELECT partition_key, count(*) FROM headgate_job WHERE state = 'running' GROUP BY 1"
        )
        assert {tuple(row) for row in running} == {(key, 3) for key in "abcd"}
        await finish(store, *(claim for some in claims for claim in some))


async def test_a_count_from_before_the_claims_of_another_gate_is_not_trusted(
    store: Store, observer: Observer, open_store: OpenStore, headgate_database: str
) -> None:
    """The clock, which is read after the snapshot was taken, stands still for one of the gates
    until the other has claimed all there is room for.
    """
    await observer.execute(_HESITATING_CLOCK)
    hesitating = open_store(dsn=f"{headgate_database}?search_path=hesitating,pg_catalog,public")
    await ceiling(observer, "default", 2)
    await bucket(observer, "api", 100)
    for worker in ("early", "late"):
        await fill(store, 3, rate_class="api", sticky_worker=worker)
    # It knows the policies from now on, so the next call begins with the complete gate.
    [claim] = await admit(hesitating, 1, worker="early")
    await finish(store, claim)
    await observer.execute("SELECT pg_advisory_lock(1)")
    counted = asyncio.create_task(admit(hesitating, 2, worker="early"))
    await someone_waits(observer)
    assert len(await admit(store, 2, worker="late")) == 2
    await observer.execute("SELECT pg_advisory_unlock(1)")
    assert await counted == []
