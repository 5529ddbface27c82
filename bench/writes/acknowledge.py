"""Acknowledgements with their counters, beside a twin that keeps none."""

import time
from contextlib import AsyncExitStack
from typing import Any, Final

import asyncpg

from bench.report import Figure, compare
from headgate.model.envelope import Envelope
from headgate.model.job import Acknowledgement, Lease
from headgate.model.lifecycle import Outcome
from headgate.store.settings import StoreSettings
from headgate.store.store import Store

HOUR_MS: Final = 3_600_000
# A name, how many are acknowledged at once, and how long a job is kept.
WORKS: Final = (
    ("ack 1 jobs/s", 1, 0),
    ("ack 100 jobs/s", 100, 0),
    ("ack 100 kept jobs/s", 100, HOUR_MS),
)

_START: Final = """
UPDATE headgate_job SET state = 'running', fence = fence + 1, lease_id = 'lease',
  claimed_by = 'worker', claimed_at_ms = enqueued_at_ms, lease_expires_at_ms = 253402300799999
WHERE state = 'available' RETURNING ulid, fence
"""


async def compare_acknowledgements(dsn: str, twin: str, *, quick: bool) -> list[Figure]:
    figures = []
    async with AsyncExitStack() as stack:
        stores, observers = [], []
        for each in (dsn, twin):
            stores.append(await stack.enter_async_context(Store(StoreSettings(dsn=each))))
            observers.append(await asyncpg.connect(each))
            stack.push_async_callback(observers[-1].close)
        await observers[1].execute("ALTER TABLE headgate_job DISABLE TRIGGER USER")
        for name, size, retention_ms in WORKS:
            rounds: list[tuple[float, float]] = []
            for _ in range(4 if quick else 12):
                jobs = size * (10 if size > 1 else 300) * (1 if quick else 3)
                rounds.append(await _round(stores, observers, jobs, size, retention_ms))
            ours, other = zip(*rounds[1:], strict=True)
            figures.append(compare(name, ours, other))
    return figures


async def _round(
    stores: list[Store], observers: list[Any], jobs: int, size: int, retention_ms: int
) -> tuple[float, float]:
    """Acknowledged jobs per second with counters and without."""
    held = []
    for store, observer in zip(stores, observers, strict=True):
        for begin in range(0, jobs, 1_000):
            count = min(1_000, jobs - begin)
            await store.producer.enqueue(
                [Envelope(kind="noop", retention_ms=retention_ms) for _ in range(count)]
            )
        rows = await observer.fetch(_START)
        held.append([Lease(row["ulid"], "lease", row["fence"]) for row in rows])
    spent = [0.0, 0.0]
    for begin in range(0, jobs, size):
        turn = begin // size
        for side in (0, 1) if turn % 2 else (1, 0):
            reports = [
                Acknowledgement(lease=lease, outcome=Outcome.SUCCESS)
                for lease in held[side][begin : begin + size]
            ]
            started = time.perf_counter()
            await stores[side].leases.acknowledge(reports)
            spent[side] += time.perf_counter() - started
    return jobs / spent[0], jobs / spent[1]
