"""What queues took in and finished over time."""

import pytest

from headgate.model.envelope import Envelope
from headgate.model.errors import InvalidRequest
from headgate.model.lifecycle import State
from headgate.model.queue import HistoryBucket
from headgate.store.store import Store
from tests.store.backlog import fill
from tests.store.journeys import bring
from tests.store.rows import Observer, now_ms
from tests.store.test_queues import MINUTE_MS, fold

_COUNTERS = """
INSERT INTO headgate_queue_counter (queue, bucket_ms, arrived, completed)
SELECT $1, $2::bigint - n * 60000, n, 1 FROM generate_series(1, $3::int) AS n
"""


async def minute(observer: Observer) -> int:
    return await now_ms(observer) // MINUTE_MS * MINUTE_MS


@pytest.mark.parametrize("folded", [False, True])
async def test_what_has_just_happened(store: Store, observer: Observer, folded: bool) -> None:
    start = await minute(observer)
    await fill(store, 2, queue="q")
    await bring(store, observer, Envelope(kind="mail", queue="q"), State.COMPLETED)
    await fill(store, 5, queue="other")
    if folded:
        await fold(store)
    found = await store.queues.history("q")
    assert sum(each.arrived for each in found) == 3
    assert sum(each.completed for each in found) == 1
    assert all(each.at_ms in {start, start + MINUTE_MS} for each in found)
    assert await store.queues.history("nobody's") == []
    assert await store.queues.history("\0") == []


async def test_buckets_from_a_time_on(store: Store, observer: Observer) -> None:
    now = await minute(observer)
    await observer.execute(_COUNTERS, "q", now, 6)
    found = await store.queues.history("q", since_ms=now - 3 * MINUTE_MS)
    assert found == [HistoryBucket(now - n * MINUTE_MS, n, 1) for n in (3, 2, 1)]
    found = await store.queues.history("q", since_ms=now - 3 * MINUTE_MS + 1)
    assert [each.arrived for each in found] == [2, 1]
    assert len(await store.queues.history("q", since_ms=-(2**63))) == 6
    assert await store.queues.history("q", since_ms=2**63 - 1) == []


@pytest.mark.parametrize("width_ms", [300_000, 61_000, 86_400_000, 2**63 - 1])
async def test_wider_buckets(store: Store, observer: Observer, width_ms: int) -> None:
    now = await minute(observer)
    await observer.execute(_COUNTERS, "q", now, 100)
    expected: dict[int, int] = {}
    for n in range(1, 101):
        at_ms = (now - n * MINUTE_MS) // width_ms * width_ms
        expected[at_ms] = expected.get(at_ms, 0) + n
    found = await store.queues.history("q", bucket_ms=width_ms)
    assert [(each.at_ms, each.arrived) for each in found] == sorted(expected.items())
    assert sum(each.completed for each in found) == 100


@pytest.mark.parametrize("width_ms", [59_999, 0, -1])
async def test_too_narrow(store: Store, width_ms: int) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await store.queues.history("q", bucket_ms=width_ms)
    assert refused.value.message == "bucket_ms must be >= 60000 (the stored granularity)"


async def test_the_newest_buckets_are_kept(store: Store, observer: Observer) -> None:
    now = await minute(observer)
    await observer.execute(_COUNTERS, "q", now, 10_500)
    found = await store.queues.history("q")
    assert 9_999 <= len(found) <= 10_000
    assert found[-1] == HistoryBucket(now - MINUTE_MS, 1, 1)
    wide = await store.queues.history("q", bucket_ms=2 * MINUTE_MS)
    assert sum(each.completed for each in wide) == 10_500
