"""Producers, gates and acknowledgements while somebody's transaction stays open."""

import asyncio
import itertools
import statistics
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import asyncpg

from bench.report import Figure, compare
from headgate.model.envelope import Envelope
from headgate.model.job import Acknowledgement
from headgate.model.lifecycle import Outcome
from headgate.store.joining import enqueue_in
from headgate.store.settings import StoreSettings
from headgate.store.store import Store

PRODUCERS: Final = 2
WORKERS: Final = 2
CAPACITY: Final = 10
LEASE_MS: Final = 60_000
OPERATIONS: Final = ("enqueue", "admit", "ack")

Answer = TypeVar("Answer")


async def compare_latencies(dsn: str, *, quick: bool) -> list[Figure]:
    seconds, rounds = (1.0, 4) if quick else (5.0, 4)
    found: dict[tuple[str, bool], list[float]] = defaultdict(list)
    async with Store(StoreSettings(dsn=dsn)) as store:
        await _traffic(store, 0.5)
        for turn in range(rounds):
            for is_open in (True, False) if turn % 2 else (False, True):
                if is_open:
                    async with _open_transaction(dsn):
                        times = await _traffic(store, seconds)
                else:
                    times = await _traffic(store, seconds)
                for operation in OPERATIONS:
                    found[operation, is_open] += times[operation]
    return [
        compare(
            f"{operation} p99 ms, open transaction",
            [_p99_ms(found[operation, True])],
            [_p99_ms(found[operation, False])],
            less_is_better=True,
        )
        for operation in OPERATIONS
    ]


def _p99_ms(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=100)[98] * 1000


def _jobs(prefix: str, count: int) -> list[Envelope]:
    """Jobs of one queue and partition, half of them with a key."""
    return [
        Envelope(
            kind="noop",
            partition_key="p",
            unique_key=f"{prefix}-{number}".encode() if number % 2 else None,
        )
        for number in range(count)
    ]


@asynccontextmanager
async def _open_transaction(dsn: str) -> AsyncIterator[None]:
    connection = await asyncpg.connect(dsn)
    try:
        transaction = connection.transaction()
        await transaction.start()
        for number in range(5):
            await enqueue_in(connection, _jobs(f"open-{number}", 10))
        yield
        await transaction.rollback()
    finally:
        await connection.close()


_turns = itertools.count()


async def _traffic(store: Store, seconds: float) -> dict[str, list[float]]:
    """How long each operation took, in seconds."""
    times: dict[str, list[float]] = defaultdict(list)
    end = time.perf_counter() + seconds

    async def timed(operation: str, work: Awaitable[Answer]) -> Answer:
        started = time.perf_counter()
        answer = await work
        times[operation].append(time.perf_counter() - started)
        return answer

    async def produce() -> None:
        while time.perf_counter() < end:
            batch = _jobs(f"key-{next(_turns)}", 4)
            await timed("enqueue", store.producer.enqueue(batch))
            await asyncio.sleep(0.004)

    async def work(name: str) -> None:
        while time.perf_counter() < end:
            claims = await timed("admit", store.gate.admit(name, ["default"], CAPACITY, LEASE_MS))
            reports = [
                Acknowledgement(lease=claim.lease, outcome=Outcome.SUCCESS) for claim in claims
            ]
            if reports:
                await timed("ack", store.leases.acknowledge(reports))
            await asyncio.sleep(0.004)

    async def fold() -> None:
        while time.perf_counter() < end:
            await store.upkeep.fold_ledger(1_000)
            await asyncio.sleep(0.2)

    await asyncio.gather(
        *(produce() for _ in range(PRODUCERS)),
        *(work(f"worker-{number}") for number in range(WORKERS)),
        fold(),
    )
    return times
