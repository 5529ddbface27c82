"""The registry of lanes set right: what was forgotten, and what nobody meets any more."""

import logging
from typing import Any

import pytest

from headgate.duties.lanes import LaneRepair
from headgate.model.envelope import Envelope
from headgate.model.errors import InvalidRequest
from headgate.store.joining import enqueue_in
from headgate.store.store import Store
from tests.store.backlog import admit, bucket, fill
from tests.store.rows import HOUR_MS, Observer, assert_lanes, lanes

LANES: list[dict[str, Any]] = [
    {
        "queue": queue,
        "sticky_worker": pin,
        "priority": priority,
        "partition_key": key,
        "rate_class": rate_class,
    }
    for queue in ("a", "z")
    for pin in ("", "w")
    for priority in (9, 0, -9)
    for key in ("", "é")
    for rate_class in ("", "api")
]


async def work_off(store: Store, duty: LaneRepair) -> int:
    """Runs batches until a short one, as the runner does; how many there were."""
    batches = 1
    while await duty.run_once(store) >= duty.batch:
        batches += 1
    return batches


def duty_of(batch: int) -> LaneRepair:
    duty = LaneRepair()
    duty.batch = batch
    return duty


@pytest.mark.parametrize("batch", [1, 5, 48, 500])
async def test_every_forgotten_lane_is_found(store: Store, observer: Observer, batch: int) -> None:
    for lane in LANES:
        await fill(store, 2, **lane)
    await fill(store, 1, queue="later", scheduled_at_ms=2**45)
    registered = await lanes(observer)
    assert len(registered) == len(LANES)
    await observer.execute("DELETE FROM headgate_active_partition")
    await observer.execute("DELETE FROM headgate_inflight")
    await work_off(store, duty_of(batch))
    assert await lanes(observer) == registered
    await assert_lanes(observer)
    await observer.execute("DELETE FROM headgate_active_partition WHERE priority = 0")
    await work_off(store, duty_of(batch))
    assert await lanes(observer) == registered


async def test_a_forgotten_lane_is_told_and_served_again(
    store: Store, observer: Observer, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(store, 3)
    await observer.execute("DELETE FROM headgate_active_partition")
    assert await admit(store, 5) == []
    with caplog.at_level(logging.WARNING, "headgate.duties"):
        await work_off(store, LaneRepair())
        await work_off(store, LaneRepair())
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert len(await admit(store, 5)) == 3


async def test_lanes_are_looked_at_and_not_their_jobs(store: Store, observer: Observer) -> None:
    await fill(store, 3_000)
    await fill(store, 3_000, partition_key="p")
    assert await store.lanes.register_forgotten(10) == (2, 0)


@pytest.mark.parametrize("batch", [1, 7, 500])
async def test_entries_that_no_gate_meets_are_pruned(
    store: Store, observer: Observer, batch: int
) -> None:
    for lane in LANES:
        await fill(store, 1, **lane)
    await observer.execute("DELETE FROM headgate_job WHERE sticky_worker = 'w'")
    await work_off(store, duty_of(batch))
    assert {lane[1] for lane in await lanes(observer)} == {""}
    await assert_lanes(observer)


async def test_an_entry_that_a_producer_holds_stays(store: Store, observer: Observer) -> None:
    await fill(store, 1, sticky_worker="gone")
    await observer.execute("DELETE FROM headgate_job")
    async with observer.transaction():
        await enqueue_in(observer, [Envelope(kind="mail", sticky_worker="gone")])
        assert await store.lanes.prune_drained(10) == (1, 1)
    await assert_lanes(observer)
    assert len(await admit(store, 5, worker="gone")) == 1


async def test_lanes_that_are_only_blocked_stay(store: Store, observer: Observer) -> None:
    await bucket(observer, "api", 1, window_ms=HOUR_MS, tokens=0)
    await fill(store, 1, rate_class="api")
    await work_off(store, LaneRepair())
    assert len(await lanes(observer)) == 1


async def test_a_limit_is_needed(store: Store) -> None:
    with pytest.raises(InvalidRequest, match="limit must be >= 1"):
        await store.lanes.register_forgotten(0)
    with pytest.raises(InvalidRequest, match="limit must be >= 1"):
        await store.lanes.prune_drained(0)
