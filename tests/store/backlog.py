"""Backlogs and policies for the tests of the gate, and the gate as a worker meets it."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Any

from headgate.model.envelope import Envelope
from headgate.model.job import Acknowledgement, Claim
from headgate.model.lifecycle import Outcome
from headgate.store.store import Store
from tests.store.rows import Observer

LEASE_MS = 30_000
_BATCH = 1_000

_BUCKET = """
INSERT INTO headgate_rate_bucket
  (name, tokens, burst, limit_per_window, window_ms, refilled_at_ms, paused)
VALUES ($1, $2, $3, $4, $5, (extract(epoch from clock_timestamp()) * 1000)::bigint, $6)
"""


async def fill(store: Store, count: int, **envelope: Any) -> None:
    """Enqueues `count` equal jobs."""
    envelope = {"kind": "mail", **envelope}
    for start in range(0, count, _BATCH):
        size = min(_BATCH, count - start)
        await store.producer.enqueue([Envelope(**envelope) for _ in range(size)])


async def bucket(
    observer: Observer,
    name: str,
    limit: int,
    *,
    window_ms: int = 1_000,
    burst: int | None = None,
    tokens: int | None = None,
    paused: bool = False,
) -> None:
    """A rate class of `limit` per window, full unless said otherwise."""
    burst = limit if burst is None else burst
    held = burst if tokens is None else tokens
    await observer.execute(_BUCKET, name, held, burst, limit, window_ms, paused)


async def ceiling(
    observer: Observer, queue: str, max_concurrent: int, on_saturated: str = "queue"
) -> None:
    await observer.execute(
        "INSERT INTO headgate_concurrency_limit VALUES ($1, $1, $2, $3) ON CONFLICT (name)"
        " DO UPDATE SET max_concurrent = $2, on_saturated = $3",
        queue,
        max_concurrent,
        on_saturated,
    )


async def finish(store: Store, *claims: Claim) -> None:
    await store.leases.acknowledge(
        [Acknowledgement(lease=claim.lease, outcome=Outcome.SUCCESS) for claim in claims]
    )


async def weigh(observer: Observer, queue: str, weight: int) -> None:
    await observer.execute(
        "INSERT INTO headgate_queue_state (queue, weight) VALUES ($1, $2)"
        " ON CONFLICT (queue) DO UPDATE SET weight = excluded.weight",
        queue,
        weight,
    )


async def pause(observer: Observer, queue: str, *, paused: bool = True) -> None:
    await observer.execute(
        "INSERT INTO headgate_queue_state (queue, paused) VALUES ($1, $2)"
        " ON CONFLICT (queue) DO UPDATE SET paused = excluded.paused",
        queue,
        paused,
    )


async def quarantine(observer: Observer, fingerprint: str) -> None:
    await observer.execute("INSERT INTO headgate_quarantine VALUES ($1, 'mail', 3, 0)", fingerprint)


async def someone_waits(observer: Observer, holder: "Observer | None" = None) -> None:
    """Returns once a session waits for a lock that `holder`, or the observer itself, holds."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))"
    while True:
        # Within a transaction the view is read once and kept.
        await observer.execute("SELECT pg_stat_clear_snapshot()")
        if await observer.fetchval(waiting, (holder or observer).get_server_pid()):
            return
        await asyncio.sleep(0.01)


async def admit(
    store: Store, capacity: int, *queues: str, worker: str = "worker", lease_ms: int = LEASE_MS
) -> list[Claim]:
    return await store.gate.admit(worker, queues or ("default",), capacity, lease_ms)


def by(field: str, claims: Iterable[Claim]) -> dict[Any, int]:
    """How many claims there are for each value of a field."""
    return dict(Counter(getattr(claim, field) for claim in claims))
