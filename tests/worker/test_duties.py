"""Duties: done by one process at a time, taken over from whoever hangs, given back at the end."""

import asyncio
import logging

import pytest

from headgate import Envelope, Headgate, Store, StoreSettings
from headgate.duties import runner
from headgate.duties.ledger import LedgerFolding
from headgate.duties.loop import all_loops
from headgate.duties.promoter import Promoter
from headgate.duties.reclaimer import Reclaimer
from headgate.duties.runner import DutyRunner, lease_ms, work_off
from tests.store.rows import Observer, job_row, start, state_of
from tests.worker.conftest import StartWorker
from tests.worker.waiting import eventually, reaches


class Counting:
    """A duty that counts its runs and handles what it is told to."""

    name = "counting"
    interval_ms = 20
    batch = 10

    def __init__(self, *handled: int, fault: Exception | None = None) -> None:
        self.handled = list(handled)
        self.fault = fault
        self.runs = 0

    async def run_once(self, store: Store) -> int:
        self.runs += 1
        if self.fault is not None:
            raise self.fault
        return self.handled.pop(0) if self.handled else 0


async def holder(observer: Observer, name: str) -> str | None:
    found: str | None = await observer.fetchval(
        "SELECT holder FROM headgate_duty WHERE name = $1"
        " AND expires_at_ms > (extract(epoch from clock_timestamp()) * 1000)::bigint",
        name,
    )
    return found


async def stop(*tasks: "asyncio.Task[None]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def test_a_lease_outlasts_two_intervals() -> None:
    loop = Counting()
    assert lease_ms(loop) == 5_000
    loop.interval_ms = 60_000
    assert lease_ms(loop) == 120_000


async def test_one_of_many_holds_a_duty_and_hands_it_over(store: Store, observer: Observer) -> None:
    loops = Counting(), Counting()
    first = asyncio.create_task(DutyRunner(store, [loops[0]], "first").run())
    await eventually(lambda: loops[0].runs > 3)
    assert await holder(observer, "counting") == "first"
    second = asyncio.create_task(DutyRunner(store, [loops[1]], "second").run())
    before = loops[0].runs
    await eventually(lambda: loops[0].runs > before + 3)
    assert loops[1].runs == 0
    await stop(first)
    assert await holder(observer, "counting") != "first"
    await eventually(lambda: loops[1].runs > 0)
    await stop(second)
    assert await holder(observer, "counting") is None


async def test_a_report_extends_the_lease_of_the_holder_alone(
    store: Store, observer: Observer
) -> None:
    async def report(holder: str) -> bool:
        return await store.duties.report(
            "counting", holder, 60_000, handled=0, done=True, interval_ms=20
        )

    assert await store.duties.claim("counting", "first", 1)
    await eventually(lambda: store.duties.claim("counting", "second", 1))
    assert not await report("first")
    assert await report("second")
    assert await holder(observer, "counting") == "second"


async def test_bc_39_a_holder_that_hangs_loses_its_duty(store: Store, observer: Observer) -> None:
    assert await store.duties.claim("counting", "hangs", 400)
    loop = Counting()
    task = asyncio.create_task(DutyRunner(store, [loop], "takes over").run())
    await eventually(lambda: loop.runs > 0, limit_ms=lease_ms(loop) + 1_000)
    assert await holder(observer, "counting") == "takes over"
    await stop(task)


async def test_a_duty_drains_until_a_short_batch(store: Store) -> None:
    loop = Counting(10, 10, 10, 9)
    loop.interval_ms = 60_000
    assert await work_off(store, loop, "drains")
    assert loop.runs == 4
    [state] = await store.fleet.duties()
    assert (state.rows_handled, state.lag_ms) == (39, 0)
    assert state.last_success_ms is not None


async def test_a_duty_looks_again_when_it_said_it_would(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hurrying(Counting):
        async def run_once(self, store: Store) -> int:
            self.interval_ms = 20
            return await super().run_once(store)

    monkeypatch.setattr(runner, "_MAX_PHASE_MS", 0)
    loop = Hurrying()
    loop.interval_ms = 3_600_000
    task = asyncio.create_task(DutyRunner(store, [loop], "hurries").run())
    await eventually(lambda: loop.runs > 1)
    await stop(task)


async def test_a_duty_that_fails_is_reported_and_tried_again(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    loop = Counting(fault=RuntimeError("broken"))
    other = Counting()
    other.name = "other"
    task = asyncio.create_task(DutyRunner(store, [loop, other], "fails").run())
    await eventually(lambda: loop.runs == 3 and other.runs > 3)
    await stop(task)
    failures = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert [r.getMessage() for r in failures] == ["duty counting failed"] * 3
    fails, works = await store.fleet.duties()
    assert (fails.last_success_ms, fails.lag_ms) == (None, None)
    assert works.last_success_ms is not None


async def test_the_promoter_makes_due_jobs_available(store: Store, observer: Observer) -> None:
    (soon, later) = await store.producer.enqueue(
        [Envelope(kind="a", delay_ms=1), Envelope(kind="a", delay_ms=3_600_000)]
    )
    await eventually(lambda: promoted(store))
    assert await state_of(observer, soon.id) == "available"
    assert await state_of(observer, later.id) == "scheduled"


async def promoted(store: Store) -> bool:
    return await Promoter().run_once(store) == 1


async def test_the_reclaimer_ends_expired_leases_of_any_kind(
    store: Store, observer: Observer, caplog: pytest.LogCaptureFixture
) -> None:
    (dead, alive) = await store.producer.enqueue([Envelope(kind="a"), Envelope(kind="b")])
    await start(observer, [dead.id], lease_ms=1)
    await start(observer, [alive.id])
    await eventually(lambda: reclaimed(store))
    assert await state_of(observer, dead.id) == "retryable"
    assert await state_of(observer, alive.id) == "running"
    texts = [record.getMessage() for record in caplog.records]
    assert texts == [f"job {dead.id} (a) lost its worker: crash 1"]


async def reclaimed(store: Store) -> bool:
    return await Reclaimer().run_once(store) == 1


async def test_the_ledger_is_folded(store: Store, observer: Observer) -> None:
    await store.producer.enqueue([Envelope(kind="a") for _ in range(3)])
    folding = LedgerFolding()
    idle_ms = folding.interval_ms
    assert await folding.run_once(store) > 0
    assert folding.interval_ms < idle_ms
    assert await observer.fetchval("SELECT count(*) FROM headgate_ledger") == 0
    assert await folding.run_once(store) == 0
    assert folding.interval_ms == idle_ms
    assert await observer.fetchval("SELECT sum(n) FROM headgate_queue_count") == 3


async def test_bc_28_a_dead_worker_is_replaced_by_one_of_the_same_id(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    @app.task("works", retention_ms=60_000)
    async def works() -> None: ...

    job = await works.enqueue()
    # The claim of a worker of this id that was killed.
    await start(observer, [job.id], lease_ms=500)
    await observer.execute("UPDATE headgate_job SET claimed_by = 'fixed'")
    start_worker(worker_id="fixed", duties=True)
    await reaches(observer, job.id, "completed")
    row = await job_row(observer, job.id)
    assert row is not None
    assert (row["crash_attempt"], row["attempt"]) == (1, 0)


async def test_duties_end_with_their_worker(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    worker = start_worker(duties=True)

    async def holds_all() -> bool:
        return {await holder(observer, loop.name) for loop in all_loops()} == {worker.worker_id}

    await eventually(holds_all)
    worker.shutdown()

    async def holds_none() -> bool:
        return {await holder(observer, loop.name) for loop in all_loops()} == {None}

    await eventually(holds_none, limit_ms=3_000)


async def test_duties_wait_for_a_database_that_is_away(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    loop = Counting()
    async with await Store.open(StoreSettings(dsn="postgresql://nobody@127.0.0.1:1/none")) as away:
        task = asyncio.create_task(DutyRunner(away, [loop], "waits").run())
        await eventually(lambda: len(caplog.records) >= 2)
        await stop(task)
    texts = [record.getMessage() for record in caplog.records]
    assert texts[0].startswith("duty counting: store unavailable")
    assert loop.runs == 0
