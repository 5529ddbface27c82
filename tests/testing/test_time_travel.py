import pytest

from headgate import Envelope, InvalidRequest, Store
from headgate.model.policy import RateClassPolicy
from headgate.tables import metadata
from headgate.testing import advance_time
from headgate.testing.time_travel import _INSTANTS

HOUR_MS = 3_600_000


async def test_a_scheduled_job_comes_due(store: Store) -> None:
    await store.producer.enqueue([Envelope(kind="mail", delay_ms=HOUR_MS)])
    assert await store.upkeep.promote_due(10) == 0
    await advance_time(store, HOUR_MS - 60_000)
    assert await store.upkeep.promote_due(10) == 0
    await advance_time(store, 60_000)
    assert await store.upkeep.promote_due(10) == 1


async def test_a_lease_ends(store: Store) -> None:
    await store.producer.enqueue([Envelope(kind="mail")])
    [claim] = await store.gate.admit("worker", ["default"], 1, HOUR_MS)
    assert await store.upkeep.reclaim_expired(10) == []
    await advance_time(store, HOUR_MS)
    [reclaimed] = await store.upkeep.reclaim_expired(10)
    assert reclaimed.job_id == claim.job_id


async def test_a_rate_class_is_filled_again(store: Store) -> None:
    policy = RateClassPolicy(limit=2, window_ms=HOUR_MS, burst=2)
    await store.policies.put_rate_class("api", policy)
    await store.producer.enqueue([Envelope(kind="mail", rate_class="api") for _ in range(4)])
    assert len(await store.gate.admit("worker", ["default"], 10, HOUR_MS)) == 2
    assert await store.gate.admit("worker", ["default"], 10, HOUR_MS) == []
    await advance_time(store, HOUR_MS)
    assert len(await store.gate.admit("worker", ["default"], 10, HOUR_MS)) == 2


async def test_time_does_not_go_back(store: Store) -> None:
    with pytest.raises(InvalidRequest, match="by_ms"):
        await advance_time(store, -1)


def test_every_instant_is_moved_or_left_on_purpose() -> None:
    moved = {(table.name, name) for table, names in _INSTANTS for name in names}
    durations = {"timeout_ms", "retention_ms", "window_ms", "interval_ms", "archive_retention_ms"}
    left = {
        (table.name, column.name)
        for table in metadata.tables.values()
        for column in table.columns
        if column.name.endswith("_ms") and column.name not in durations
    } - moved
    # Names of minutes, ticks of the calendar, and records that are only ever read.
    assert {name for _, name in left} == {
        "bucket_ms",
        "periodic_tick_ms",
        "next_run_ms",
        "last_enqueued_ms",
        "updated_at_ms",
        "tick_ms",
        "recorded_at_ms",
        "orphaned_at_ms",
        "sampled_at_ms",
        "evicted_at_ms",
        "finalized_at_ms",
        "at_ms",
        "created_at_ms",
        "revoked_at_ms",
    }
