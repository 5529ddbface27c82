"""The duties behind operators: operations end, poison is parked, what is over goes."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from headgate.duties.loop import Loop, all_loops
from headgate.duties.operations import OperationsRunner
from headgate.duties.quarantine import QuarantineSweep
from headgate.duties.retention import Evictions, Pruning
from headgate.duties.runner import DutyRunner
from headgate.model.envelope import Envelope
from headgate.model.operation import JobSelector
from headgate.model.retention import RetentionPeriods
from headgate.store.store import Store
from tests.store.rows import Observer, count_jobs
from tests.worker.waiting import eventually


@asynccontextmanager
async def running(store: Store, *loops: Loop) -> AsyncIterator[None]:
    task = asyncio.create_task(DutyRunner(store, loops, "holder").run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def fill(store: Store, count: int, **fields: Any) -> None:
    for start in range(0, count, 1_000):
        size = min(1_000, count - start)
        await store.producer.enqueue([Envelope(**{"kind": "mail", **fields}) for _ in range(size)])


def test_every_loop_has_a_name_of_its_own() -> None:
    names = [loop.name for loop in all_loops()]
    assert len(set(names)) == len(names)
    assert {"operations", "quarantine", "retention", "pruning"} < set(names)


async def test_an_operation_is_worked_off_without_a_pause(store: Store) -> None:
    await fill(store, 2_500)
    operation = await store.operations.create("delete", JobSelector(queue="default"))
    loop = OperationsRunner()
    handled: list[int] = []
    while not handled or handled[-1] >= loop.batch:
        handled.append(await loop.run_once(store))
    found = await store.operations.get(operation.id)
    assert found is not None
    assert (found.status, found.affected) == ("completed", 2_500)
    # Two full batches, the rest, and the round that finds nothing more.
    assert handled == [1, 1, 1, 1, 0]


async def test_an_operation_needs_no_more_than_a_worker(store: Store, observer: Observer) -> None:
    await fill(store, 10)
    await store.operations.create("delete", JobSelector(queue="default"))
    async with running(store, OperationsRunner()):

        async def gone() -> bool:
            return await count_jobs(observer) == 0

        await eventually(gone)


async def test_poison_is_parked_and_told(
    store: Store, observer: Observer, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(store, 1_500, fingerprint="poison")
    await observer.execute("INSERT INTO headgate_quarantine VALUES ('poison', 'mail', 3, 1)")
    with caplog.at_level(logging.WARNING):
        async with running(store, QuarantineSweep()):

            async def parked() -> bool:
                waiting: int = await observer.fetchval(
                    "SELECT count(*) FROM headgate_job WHERE state <> 'quarantined'"
                )
                return waiting == 0

            await eventually(parked)
    assert "parked 1000 waiting jobs of quarantined fingerprints" in caplog.text


@pytest.mark.parametrize(("retention_ms", "left"), [(1, 0), (0, 3)])
async def test_what_is_over_is_evicted(
    store: Store,
    observer: Observer,
    caplog: pytest.LogCaptureFixture,
    retention_ms: int,
    left: int,
) -> None:
    """Dead letters without a retention of their own have that of the configuration."""
    await fill(store, 3, retention_ms=retention_ms)
    await observer.execute("UPDATE headgate_job SET state = 'archived', finalized_at_ms = 1")
    never = RetentionPeriods(dead_letters_ms=0)
    with caplog.at_level(logging.INFO):
        evictions = Evictions(never)
        await evictions.run_once(store)
        assert await count_jobs(observer) == left
        async with running(store, Evictions()):

            async def gone() -> bool:
                return await count_jobs(observer) == 0

            await eventually(gone)
    text = "evicted 3 dead letters" if left else "evicted 3 jobs whose retention is over"
    assert text in caplog.text


async def test_records_are_pruned(store: Store, observer: Observer) -> None:
    await observer.execute(
        "INSERT INTO headgate_effect SELECT n, 1 FROM generate_series(1, 2500) n"
    )
    kept = Pruning(RetentionPeriods(effects_ms=0))
    assert await kept.run_once(store) == 0
    pruning = Pruning()
    assert [await pruning.run_once(store) for _ in range(4)] == [1_000, 1_000, 500, 0]
