"""Declared schedules: how the store learns of them, and that their jobs run."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from headgate import Headgate, JobContext, Store
from headgate.model.errors import StoreUnavailable
from headgate.model.periodic import ScheduleDefinition
from tests.store.rows import Observer, now_ms, state_of
from tests.worker.conftest import StartProcess, StartWorker
from tests.worker.waiting import eventually

Declare = Callable[..., Headgate]


@pytest.fixture
def declare(store: Store) -> Declare:
    """An application with hourly schedules of these ids, changed as the further arguments say."""

    def declared(*ids: str, name: str = "shop", **changes: Any) -> Headgate:
        app = Headgate(name=name)
        app.bind(store)
        task = app.task("report")(lambda: None)
        for each in ids:
            app.periodic(**{"cron": "0 * * * *", "id": each, **changes})(task)
        return app

    return declared


async def rows(observer: Observer) -> dict[str, Any]:
    found = await observer.fetch("SELECT * FROM headgate_schedule ORDER BY id")
    return {row["id"]: row for row in found}


async def test_what_is_declared_is_put(declare: Declare, store: Store, observer: Observer) -> None:
    app = declare("a", "b", weight=2, timeout_ms=5, tags=["x"])
    assert await app.sync_schedules() == []
    assert await store.schedules.definition("a") == app.schedules["a"]
    found = await rows(observer)
    assert list(found) == ["a", "b"]
    assert found["a"]["declared_by"] == "shop"
    now = await now_ms(observer)
    assert now < found["a"]["next_run_ms"] <= now + 3_600_000


async def test_a_second_time_nothing_is_written(declare: Declare, observer: Observer) -> None:
    await declare("a", "b").sync_schedules()
    versions = await observer.fetch("SELECT id, xmin::text, ctid::text FROM headgate_schedule")
    await declare("a", "b").sync_schedules()
    assert versions == await observer.fetch(
        "SELECT id, xmin::text, ctid::text FROM headgate_schedule"
    )


async def test_the_next_run_is_kept_with_the_spec(declare: Declare, observer: Observer) -> None:
    await declare("a").sync_schedules()
    await observer.execute("UPDATE headgate_schedule SET next_run_ms = 123")
    await declare("a", queue="slow").sync_schedules()
    row = (await rows(observer))["a"]
    assert (row["next_run_ms"], row["queue"]) == (123, "slow")
    await declare("a", cron="5 * * * *").sync_schedules()
    assert (await rows(observer))["a"]["next_run_ms"] > await now_ms(observer)


async def test_what_an_operator_paused_stays_paused(
    declare: Declare, store: Store, observer: Observer
) -> None:
    app = declare("a")
    await app.sync_schedules()
    paused = ScheduleDefinition(id="a", kind="report", spec="0 * * * *", paused=True)
    await store.schedules.put(paused)
    await app.sync_schedules()
    assert (await rows(observer))["a"]["paused"]
    await declare("b", paused=True).sync_schedules()
    assert (await rows(observer))["b"]["paused"]
    await declare("b").sync_schedules()
    assert (await rows(observer))["b"]["paused"]


async def test_pruning_removes_what_the_application_declared_once(
    declare: Declare, store: Store, observer: Observer
) -> None:
    await declare("a", "b", "c").sync_schedules()
    await declare("of-another", name="crm").sync_schedules()
    await store.schedules.put(ScheduleDefinition(id="by-hand", kind="report", spec="@every:1"))
    assert await declare("a").sync_schedules() == []
    assert list(await rows(observer)) == ["a", "b", "by-hand", "c", "of-another"]
    assert await declare("a").sync_schedules(prune=True) == ["b", "c"]
    assert list(await rows(observer)) == ["a", "by-hand", "of-another"]
    assert await declare().sync_schedules(prune=True) == ["a"]
    assert list(await rows(observer)) == ["by-hand", "of-another"]


async def test_many_workers_start_together(declare: Declare, observer: Observer) -> None:
    ids = [f"s{number}" for number in range(20)]
    await asyncio.gather(
        *(declare(*ids, cron=f"{n} * * * *").sync_schedules() for n in range(8)),
        *(declare(*reversed(ids)).sync_schedules() for _ in range(8)),
    )
    assert len(await rows(observer)) == 20


async def test_a_worker_makes_them_known_and_runs_their_jobs(
    app: Headgate, start_worker: StartWorker
) -> None:
    ticks: list[int] = []

    @app.periodic(every_ms=100)
    async def often(ctx: JobContext) -> None:
        assert ctx.periodic_origin is not None
        assert ctx.periodic_origin.schedule_id == "often"
        ticks.append(ctx.periodic_origin.tick_ms)

    start_worker(duties=True)
    await eventually(lambda: len(ticks) >= 2)
    assert all(tick % 100 == 0 for tick in ticks)
    assert ticks == sorted(set(ticks))


async def test_a_worker_can_leave_them_alone(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    app.periodic("0 9 * * *", kind="report")(lambda: None)
    job = await app.tasks["report"].enqueue(retention_ms=60_000)
    start_worker(sync_schedules=False)

    async def ran() -> bool:
        return await state_of(observer, job.id) == "completed"

    await eventually(ran)
    assert await rows(observer) == {}


async def test_a_worker_waits_for_a_store_that_is_away(
    app: Headgate,
    store: Store,
    start_worker: StartWorker,
    observer: Observer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app.periodic("0 9 * * *", kind="report")(lambda: None)
    declare = store.schedules.declare
    tried = []

    async def at_first_away(*args: Any, **kwargs: Any) -> list[str]:
        tried.append(args)
        if len(tried) == 1:
            raise StoreUnavailable("gone")
        return await declare(*args, **kwargs)

    monkeypatch.setattr(store.schedules, "declare", at_first_away)
    start_worker()

    async def known() -> bool:
        return bool(await rows(observer))

    await eventually(known)
    assert len(tried) == 2


HANDLERS = """
from headgate import Headgate

app = Headgate(name="shop")

@app.periodic("0 9 * * *", queue="nightly")
def report() -> None: ...
"""


async def test_the_command(start_process: StartProcess, store: Store, observer: Observer) -> None:
    old = ScheduleDefinition(id="old", kind="report", spec="@every:60000")
    await store.schedules.declare([old], owner="shop")
    start_process(HANDLERS, "--prune-schedules")

    async def known() -> bool:
        return list(await rows(observer)) == ["report"]

    await eventually(known)
    await observer.execute("DELETE FROM headgate_schedule")
    process = start_process(HANDLERS, "--no-sync-schedules")
    await eventually(lambda: process.says("takes jobs from nightly"))
    assert await rows(observer) == {}
