"""The duty that takes up due schedules: in rounds, whatever one of them does."""

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any

import pytest

from headgate import Headgate, PeriodicHook, Worker
from headgate.duties.loop import all_loops
from headgate.duties.runner import DutyRunner
from headgate.duties.scheduler import Scheduler
from headgate.model.errors import StoreUnavailable
from headgate.model.periodic import DueSchedule, ScheduleDefinition, Tick, TickOutcome
from headgate.store.store import Store
from headgate.store.ticks import Fired
from tests.store.rows import HOUR_MS, Observer, now_ms
from tests.worker.waiting import eventually

YEAR_HOURS = 366 * 24


async def put_missed(store: Store, observer: Observer, *names: str, hours: int = 1) -> None:
    for number, name in enumerate(names):
        await store.schedules.put(
            ScheduleDefinition(id=name, kind="report", spec=f"@every:{HOUR_MS}")
        )
        await observer.execute(
            "UPDATE headgate_schedule SET next_run_ms = $1 WHERE id = $2",
            await now_ms(observer) // HOUR_MS * HOUR_MS - hours * HOUR_MS + number,
            name,
        )


async def fired_ids(observer: Observer) -> list[str]:
    rows = await observer.fetch("SELECT periodic_schedule_id AS id FROM headgate_job ORDER BY id")
    return [row["id"] for row in rows]


async def due_ids(store: Store) -> list[str]:
    return [each.id for each in await store.schedules.due(1_000)]


async def test_it_is_one_of_the_duties() -> None:
    assert [loop.name for loop in all_loops()].count("scheduler") == 1


async def test_a_round_takes_up_all_that_is_due(store: Store, observer: Observer) -> None:
    await put_missed(store, observer, "a", "b", "c")
    scheduler = Scheduler()
    assert await scheduler.run_once(store) == 3
    assert await fired_ids(observer) == ["a", "b", "c"]
    assert await scheduler.run_once(store) == 0


async def test_one_that_fails_does_not_stop_the_others(
    store: Store, observer: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put_missed(store, observer, "a", "b", "c")
    fire = store.schedules.fire

    async def fire_but_b(due: DueSchedule) -> Fired:
        if due.id == "b":
            raise ZeroDivisionError
        return await fire(due)

    monkeypatch.setattr(store.schedules, "fire", fire_but_b)
    assert await Scheduler().run_once(store) == 3
    assert await fired_ids(observer) == ["a", "c"]
    assert await due_ids(store) == ["b"]
    [event] = (await store.schedules.events("b", limit=9)).events
    assert (event.outcome, event.reason) == ("failed", "store_error")


async def test_a_page_that_stays_due_does_not_hide_what_is_behind_it(
    store: Store, observer: Observer
) -> None:
    await put_missed(store, observer, "a", "b", "c", "d", "e")
    await observer.execute(
        "UPDATE headgate_schedule SET kind = 'bad kind' WHERE id IN ('a', 'b', 'c')"
    )
    scheduler = Scheduler()
    scheduler.batch = 2
    rounds: list[int] = []
    while not rounds or rounds[-1] == scheduler.batch:
        rounds.append(await scheduler.run_once(store))
    assert rounds == [2, 2, 1]
    assert await fired_ids(observer) == ["d", "e"]
    # The next round begins at the front again.
    await observer.execute("UPDATE headgate_schedule SET kind = 'report'")
    while await scheduler.run_once(store) == scheduler.batch:
        pass
    assert await fired_ids(observer) == ["a", "b", "c", "d", "e"]


async def test_a_store_that_is_away_ends_the_round(
    store: Store, observer: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put_missed(store, observer, "a", "b")
    tried = []

    async def away(due: DueSchedule, *_: object) -> Fired:
        tried.append(due.id)
        raise StoreUnavailable("gone")

    with monkeypatch.context() as patch:
        patch.setattr(store.schedules, "fire", away)
        patch.setattr(store.schedules, "fail", away)
        with pytest.raises(StoreUnavailable):
            await Scheduler().run_once(store)
    assert tried == ["a", "a"]
    assert await due_ids(store) == ["a", "b"]


async def test_a_lock_that_is_not_got_is_told(
    store: Store, observer: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put_missed(store, observer, "a", "b")
    fire = store.schedules.fire

    async def hindered(due: DueSchedule) -> Fired:
        if due.id == "a":
            raise StoreUnavailable("lock timed out")
        return await fire(due)

    monkeypatch.setattr(store.schedules, "fire", hindered)
    assert await Scheduler().run_once(store) == 2
    assert await fired_ids(observer) == ["b"]
    [event] = (await store.schedules.events("a", limit=9)).events
    assert (event.outcome, event.reason) == ("failed", "store_unavailable")


@pytest.mark.parametrize(
    ("policy", "limit", "jobs"),
    [("skip", 0, 1), ("run_once", 0, 1), ("backfill", 5, 5), ("backfill", 2_500, 2_500)],
)
@pytest.mark.parametrize("spec", [f"@every:{HOUR_MS}", "CRON_TZ=America/New_York 0 * * * *"])
async def test_a_year_is_caught_up_in_one_pass(
    store: Store, observer: Observer, spec: str, policy: str, limit: int, jobs: int
) -> None:
    await store.schedules.put(
        ScheduleDefinition(
            id="hourly", kind="report", spec=spec, on_missed=policy, backfill_limit=limit
        )
    )
    await observer.execute(
        "UPDATE headgate_schedule SET next_run_ms = next_run_ms - $1::bigint",
        YEAR_HOURS * HOUR_MS,
    )
    scheduler = Scheduler()
    while await scheduler.run_once(store) == scheduler.batch:
        pass
    rows = await observer.fetch("SELECT periodic_tick_ms AS tick FROM headgate_job ORDER BY id")
    assert len(rows) == jobs
    assert rows[-1]["tick"] + HOUR_MS > await now_ms(observer)
    assert await due_ids(store) == []


async def test_time_is_the_databases(
    store: Store, observer: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of the process is a year ahead; nothing is due."""
    await store.schedules.put(ScheduleDefinition(id="a", kind="report", spec="0 0 1 1 *"))
    ahead = time.time() + 366 * 86_400
    monkeypatch.setattr("time.time", lambda: ahead)
    monkeypatch.setattr("time.time_ns", lambda: int(ahead * 1e9))
    assert await Scheduler().run_once(store) == 0
    await put_missed(store, observer, "b")
    assert await Scheduler().run_once(store) == 1
    tick = await observer.fetchval("SELECT periodic_tick_ms FROM headgate_job")
    assert tick <= await now_ms(observer)


async def test_two_schedulers_at_once(store: Store, observer: Observer) -> None:
    names = [f"s{number:02}" for number in range(30)]
    await put_missed(store, observer, *names, hours=2)
    await asyncio.gather(*(Scheduler().run_once(store) for _ in range(4)))
    while await due_ids(store):
        await Scheduler().run_once(store)
    assert await fired_ids(observer) == names
    assert await observer.fetchval("SELECT count(*) FROM headgate_schedule_event") == 30


async def test_failures_are_logged_once(
    store: Store, observer: Observer, caplog: pytest.LogCaptureFixture
) -> None:
    await put_missed(store, observer, "full", "odd")
    await observer.execute("INSERT INTO headgate_enqueue_policy VALUES ('default', 0)")
    await observer.execute("UPDATE headgate_schedule SET spec = 'odd' WHERE id = 'odd'")
    with caplog.at_level(logging.WARNING, logger="headgate.duties"):
        for _ in range(3):
            await Scheduler().run_once(store)
    tick = (await store.schedules.events("full", limit=1)).events[0].tick_ms
    assert sorted((record.levelname, record.message) for record in caplog.records) == [
        ("ERROR", "schedule odd has a spec that is not understood; put off"),
        ("WARNING", f"schedule full: tick {tick} failed: backpressure"),
    ]


async def test_the_runner_keeps_the_beat(store: Store, observer: Observer) -> None:
    await store.schedules.put(
        ScheduleDefinition(
            id="often", kind="report", spec="@every:100", on_missed="backfill", backfill_limit=100
        )
    )
    runner = asyncio.create_task(DutyRunner(store, [Scheduler()], "me").run())

    async def three_rounds() -> bool:
        return bool(await observer.fetchval("SELECT count(*) >= 20 FROM headgate_job"))

    await eventually(three_rounds)
    runner.cancel()
    await asyncio.wait((runner,))
    rows = await observer.fetch("SELECT periodic_tick_ms AS tick FROM headgate_job ORDER BY id")
    found = [row["tick"] for row in rows]
    assert found == list(range(found[0], found[-1] + 1, 100))


class Listening(PeriodicHook):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def on_begin(self, schedule_id: str, due_ms: int) -> None:
        self.told.append(("begin", schedule_id, due_ms))

    def on_end(self, schedule_id: str, ticks: Sequence[Tick]) -> None:
        self.told.append(("end", schedule_id, [tick.outcome for tick in ticks]))


class Broken(PeriodicHook):
    def on_begin(self, schedule_id: str, due_ms: int) -> None:
        raise RuntimeError("broken")


async def test_hooks_are_told_and_change_nothing(
    store: Store, observer: Observer, caplog: pytest.LogCaptureFixture
) -> None:
    await put_missed(store, observer, "good", "full")
    await observer.execute("UPDATE headgate_schedule SET queue = 'full' WHERE id = 'full'")
    await store.queues.set_enqueue_limit("full", 0)
    due = {each.id: each.next_run_ms for each in await store.schedules.due(10)}
    hook = Listening()
    await Scheduler([Broken(), hook]).run_once(store)
    assert sorted(hook.told, key=lambda each: (each[1], each[0])) == [
        ("begin", "full", due["full"]),
        ("end", "full", [TickOutcome.FAILED]),
        ("begin", "good", due["good"]),
        ("end", "good", [TickOutcome.ENQUEUED]),
    ]
    assert caplog.messages.count("a hook of schedules failed") == 2


async def test_the_hooks_of_an_application_hear_of_its_workers(
    store: Store, observer: Observer
) -> None:
    await put_missed(store, observer, "good")
    hook = Listening()
    app = Headgate(periodic_hooks=[hook])
    worker = Worker(app, store)
    task = asyncio.create_task(worker.run())
    await eventually(lambda: len(hook.told) == 2)
    worker.shutdown()
    await task
