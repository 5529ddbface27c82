"""Live workers, one by one and all together."""

import pytest

from headgate.model.errors import InvalidRequest
from headgate.model.fleet import Cluster, QueueCoverage, WorkerCounts, WorkerView
from headgate.model.page import PageRequest
from headgate.store.store import Store
from tests.store.backlog import fill
from tests.store.rows import Observer, now_ms

_WORKER = """
INSERT INTO headgate_worker (worker_id, host, pid, queues, concurrency, started_at_ms,
  heartbeat_at_ms, inflight, polls, empty_polls, status, command)
VALUES ($1, 'h', 42, $2, $3, 1, $4, $5, $6, $7, $8, $9)
"""
LIVE_MS = 900_000


async def add(
    observer: Observer,
    worker_id: str,
    queues: list[str],
    *,
    age_ms: int = 0,
    concurrency: int = 8,
    inflight: int = 6,
    polls: int = 10,
    empty_polls: int = 2,
    status: str = "running",
    command: str | None = None,
) -> int:
    at_ms = await now_ms(observer) - age_ms
    numbers = (concurrency, at_ms, inflight, polls, empty_polls)
    await observer.execute(_WORKER, worker_id, queues, *numbers, status, command)
    return at_ms


async def workers(store: Store) -> dict[str, WorkerView]:
    page = await store.fleet.workers(PageRequest())
    assert page.next_cursor is None
    return {each.worker_id: each for each in page.items}


async def test_a_worker(store: Store, observer: Observer) -> None:
    at_ms = await add(observer, "w", ["a", "b"], command="quiet")
    assert await workers(store) == {
        "w": WorkerView(
            worker_id="w",
            host="h",
            pid=42,
            queues=["a", "b"],
            concurrency=8,
            started_at_ms=1,
            heartbeat_at_ms=at_ms,
            inflight=6,
            polls=10,
            empty_polls=2,
            utilization=0.75,
            empty_poll_ratio=0.2,
            status="running",
            duties_active=True,
            pending_command="quiet",
        )
    }


async def test_a_worker_that_has_not_begun(store: Store, observer: Observer) -> None:
    await add(observer, "w", [], concurrency=0, inflight=0, polls=0, empty_polls=0, status="")
    worker = (await workers(store))["w"]
    assert (worker.utilization, worker.empty_poll_ratio) == (0.0, 0.0)
    assert (worker.status, worker.pending_command, worker.queues) == ("running", None, [])


async def test_dead_workers_are_not_listed(store: Store, observer: Observer) -> None:
    await add(observer, "dead", ["q"], age_ms=LIVE_MS + 1)
    await add(observer, "late", ["q"], age_ms=LIVE_MS - 60_000)
    assert list(await workers(store)) == ["late"]


async def test_pages_by_id(store: Store, observer: Observer) -> None:
    names = sorted(["b", "A", "é", "c", "a"], key=str.encode)
    for name in names:
        await add(observer, name, ["q"])
        await add(observer, f"{name}-dead", ["q"], age_ms=2 * LIVE_MS)
    seen: list[str] = []
    cursor: int | None = 0
    while cursor is not None:
        page = await store.fleet.workers(PageRequest(2, cursor))
        seen += [each.worker_id for each in page.items]
        cursor = page.next_cursor
    assert seen == names
    with pytest.raises(InvalidRequest, match="limit must be between 1 and 200"):
        await store.fleet.workers(PageRequest(0))


async def test_no_worker_and_no_queue(store: Store) -> None:
    assert await store.fleet.cluster() == Cluster(
        workers=WorkerCounts(live=0, stale=0, total=0),
        capacity_total=0,
        inflight_total=0,
        utilization=0.0,
        empty_poll_ratio=0.0,
        polls_total=0,
        empty_polls_total=0,
        queues=[],
    )


async def test_the_cluster(store: Store, observer: Observer) -> None:
    await add(observer, "w1", ["a", "b"], concurrency=10, inflight=6, polls=100, empty_polls=50)
    await add(observer, "w2", ["b", "b"], concurrency=2, inflight=1, polls=1, empty_polls=1)
    await add(observer, "dead", ["c"], age_ms=2 * LIVE_MS, concurrency=99, inflight=99)
    await fill(store, 1, queue="uncovered")
    await store.queues.pause("paused")
    assert await store.fleet.cluster() == Cluster(
        workers=WorkerCounts(live=2, stale=1, total=3),
        capacity_total=12,
        inflight_total=7,
        utilization=7 / 12,
        empty_poll_ratio=51 / 101,
        polls_total=101,
        empty_polls_total=51,
        queues=[
            QueueCoverage("a", 1),
            QueueCoverage("b", 2),
            QueueCoverage("paused", 0),
            QueueCoverage("uncovered", 0),
        ],
    )


async def test_a_signal_is_seen_until_it_is_taken(store: Store, observer: Observer) -> None:
    await add(observer, "w", ["q"])
    await store.workers.signal("w", "resign")
    assert (await workers(store))["w"].pending_command == "resign"
    await store.workers.signal("w", None)
    assert (await workers(store))["w"].pending_command is None
