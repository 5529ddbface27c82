"""A call that comes back empty for want of tokens can tell when there will be some."""

from typing import Any, cast

import pytest

from headgate.queries.gate.refill import refill
from headgate.store.gate import Gate
from headgate.store.store import Store
from tests.store.backlog import admit, bucket, ceiling, fill, pause, quarantine
from tests.store.recording import Recorder
from tests.store.rows import HOUR_MS, Observer, now_ms
from tests.store.test_gate_classes import advance

# More than a test takes, and less than any refill here.
MARGIN_MS = 300_000


async def hold_time(observer: Observer) -> None:
    """Buckets get nothing from now on."""
    await advance(observer, -1_000_000_000_000)


async def refill_ms(store: Store, queue: str = "default") -> int | None:
    """What a worker is told that has just looked in vain."""
    assert await admit(store, 10, queue) == []
    return await store.gate.refill_ms("worker", [queue])


async def test_the_wait_ends_when_the_class_holds_a_token(store: Store, observer: Observer) -> None:
    await bucket(observer, "api", 1, window_ms=HOUR_MS, tokens=0)
    empty_at: int = await observer.fetchval("SELECT refilled_at_ms FROM headgate_rate_bucket")
    await fill(store, 9, rate_class="api")
    before = await now_ms(observer)
    told = await refill_ms(store)
    assert told is not None
    assert before <= empty_at + HOUR_MS - told <= await now_ms(observer)
    await advance(observer, told - MARGIN_MS)
    assert await refill_ms(store) is not None
    await advance(observer, MARGIN_MS)
    assert len(await admit(store, 10)) == 1


@pytest.mark.parametrize("limit", [1, 7])
async def test_a_job_is_waited_for_as_long_as_it_costs(
    store: Store, observer: Observer, limit: int
) -> None:
    """Rounded up to whole milliseconds, so that nobody comes too early."""
    await bucket(observer, "api", limit, window_ms=HOUR_MS, burst=3, tokens=0)
    await hold_time(observer)
    await fill(store, 1, rate_class="api", weight=5)
    assert await refill_ms(store) == -(-3 * HOUR_MS // limit)


async def test_the_earliest_of_several_classes_counts(store: Store, observer: Observer) -> None:
    for name, limit in (("slow", 1), ("quick", 4), ("idle", 60)):
        await bucket(observer, name, limit, window_ms=HOUR_MS, tokens=0)
    await hold_time(observer)
    await fill(store, 2, rate_class="slow", priority=9)
    await fill(store, 2, rate_class="quick", partition_key="other")
    assert await refill_ms(store) == HOUR_MS // 4


async def test_a_class_that_saves_up_is_waited_for(store: Store, observer: Observer) -> None:
    await bucket(observer, "api", 10, window_ms=HOUR_MS, tokens=0)
    await hold_time(observer)
    await fill(store, 1, rate_class="api", weight=10, queue="heavy")
    await fill(store, 1, rate_class="api", queue="light")
    assert await refill_ms(store, "light") == HOUR_MS // 10
    await observer.execute(
        "UPDATE headgate_rate_bucket SET reserved_until_ms = 1e15,"
        " reserved_job_id = (SELECT ulid FROM headgate_job WHERE queue = 'heavy')"
    )
    assert await refill_ms(store, "light") == await refill_ms(store, "heavy") == HOUR_MS


async def test_what_time_does_not_help_is_not_waited_for(store: Store, observer: Observer) -> None:
    await bucket(observer, "paused", 10, tokens=0, paused=True)
    await bucket(observer, "closed", 0, burst=1, tokens=0)
    await bucket(observer, "api", 10, window_ms=HOUR_MS, tokens=0)
    await bucket(observer, "unused", 10, window_ms=HOUR_MS, tokens=0)
    await fill(store, 1, rate_class="paused")
    await fill(store, 1, rate_class="closed")
    await fill(store, 1, rate_class="api", sticky_worker="other")
    await fill(store, 1, rate_class="api", fingerprint="bad")
    await quarantine(observer, "bad")
    await ceiling(observer, "full", 1)
    await fill(store, 1, queue="full")
    assert len(await admit(store, 1, "full")) == 1
    for queue in ("full", "still"):
        await fill(store, 2, rate_class="api", queue=queue)
    await pause(observer, "still")
    for queue in ("default", "full", "still"):
        assert await refill_ms(store, queue) is None
    await fill(store, 1, rate_class="api")
    assert await refill_ms(store) is not None


async def test_nothing_is_asked_where_no_class_was_met(store: Store, observer: Observer) -> None:
    recorder = Recorder(store.gate._database)
    gate = Gate(cast("Any", recorder))

    async def asked(count: int) -> bool:
        recorder.asked.clear()
        assert await gate.admit("worker", ["default"], 1, HOUR_MS) == []
        await gate.refill_ms("worker", ["default"])
        return [each.statement for each in recorder.asked].count(refill()) == count

    await bucket(observer, "api", 1, window_ms=HOUR_MS)
    assert await asked(0)
    await fill(store, 1, fingerprint="bad")
    await quarantine(observer, "bad")
    assert await asked(0)
    await fill(store, 2, rate_class="api")
    assert len(await gate.admit("worker", ["default"], 1, HOUR_MS)) == 1
    assert await asked(1)
    await observer.execute("DELETE FROM headgate_job")
    await observer.execute("DELETE FROM headgate_active_partition")
    assert await asked(0)


async def test_only_what_waits_below_a_ceiling_hopes_for_an_end(
    store: Store, observer: Observer
) -> None:
    def is_crowded() -> bool:
        return store.gate.is_crowded("worker", ["default"])

    await fill(store, 1, fingerprint="bad")
    await quarantine(observer, "bad")
    assert await admit(store, 10) == []
    assert not is_crowded()
    await ceiling(observer, "default", 1)
    await fill(store, 2)
    assert len(await admit(store, 10)) == 1
    assert await admit(store, 10) == []
    assert is_crowded()
    await observer.execute("DELETE FROM headgate_job")
    await observer.execute("DELETE FROM headgate_active_partition")
    assert await admit(store, 10) == []
    assert not is_crowded()
