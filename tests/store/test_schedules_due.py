"""What becomes of due ticks: jobs, events and the next run, together or not at all."""

import asyncio
from typing import Any

import asyncpg
import pytest

from headgate.model.envelope import Envelope
from headgate.model.errors import BackendError, InvalidRequest
from headgate.model.identity import fingerprint
from headgate.model.job import Acknowledgement
from headgate.model.lifecycle import Outcome
from headgate.model.periodic import DueSchedule, ScheduleDefinition
from headgate.model.retention import RetentionPeriods
from headgate.store.store import Store
from tests.store.conftest import OpenStore
from tests.store.rows import HOUR_MS, Observer, count_jobs, job_row, now_ms, start

MISSED = 5


async def missed(
    store: Store, observer: Observer, *, hours: int = MISSED, **fields: Any
) -> DueSchedule:
    """An hourly schedule that nobody has looked at; its oldest tick is `hours` back."""
    definition = ScheduleDefinition(
        **{"id": "hourly", "kind": "report", "spec": f"@every:{HOUR_MS}", **fields}
    )
    await store.schedules.put(definition)
    next_run_ms = (await now_ms(observer)) // HOUR_MS * HOUR_MS - (hours - 1) * HOUR_MS
    await observer.execute(
        "UPDATE headgate_schedule SET next_run_ms = $1 WHERE id = $2", next_run_ms, definition.id
    )
    return DueSchedule(next_run_ms, definition.id)


async def ticks(observer: Observer) -> list[int]:
    rows = await observer.fetch(
        "SELECT periodic_tick_ms FROM headgate_job WHERE periodic_tick_ms > 0 ORDER BY id"
    )
    return [row["periodic_tick_ms"] for row in rows]


async def next_run(store: Store, schedule_id: str = "hourly") -> int:
    schedule = await store.schedules.get(schedule_id)
    assert schedule is not None
    return schedule.next_run_ms


async def told(store: Store, schedule_id: str = "hourly") -> list[tuple[str, str]]:
    """What the events say, newest first."""
    page = await store.schedules.events(schedule_id, limit=100)
    return [(event.outcome, event.reason) for event in page.events]


async def test_the_job_of_a_tick(store: Store, observer: Observer) -> None:
    due = await missed(
        store,
        observer,
        hours=1,
        id="a:b",
        payload=b"x",
        schema_version=2,
        queue="slow",
        partition_key="tenant",
        priority=3,
        max_attempts=4,
        retention_ms=5,
    )
    assert await store.schedules.due(10) == [due]
    fired = await store.schedules.fire(due)
    tick = due.next_run_ms
    job_id = f"sched:a:b:{tick}"
    assert [event.job_id for event in fired.events] == [job_id]
    row = await job_row(observer, job_id)
    assert row is not None
    assert (row["state"], row["payload"], row["schema_version"]) == ("available", b"x", 2)
    assert (row["queue"], row["partition_key"], row["priority"]) == ("slow", "tenant", 3)
    assert (row["max_attempts"], row["retention_ms"]) == (4, 5)
    assert row["unique_key"] == b"\x01K\0\0\0\x06report" + job_id.encode()
    assert (row["periodic_schedule_id"], row["periodic_tick_ms"]) == ("a:b", tick)
    [event] = (await store.schedules.events("a:b", limit=9)).events
    assert (event.schedule_id, event.tick_ms, event.job_id) == ("a:b", tick, job_id)
    assert (event.outcome, event.reason) == ("enqueued", "accepted")
    now = await now_ms(observer)
    assert abs(event.recorded_at_ms - now) < 60_000
    schedule = await store.schedules.get("a:b")
    assert schedule is not None
    assert schedule.next_run_ms == tick + HOUR_MS
    assert schedule.last_enqueued_ms is not None
    assert abs(schedule.last_enqueued_ms - now) < 60_000
    assert await store.schedules.due(10) == []


@pytest.mark.parametrize(
    ("policy", "limit", "count"),
    [
        ("skip", 0, 1),
        ("skip", 3, 1),
        ("run_once", 0, 1),
        ("run_once", 3, 1),
        ("backfill", 0, 1),
        ("backfill", 3, 3),
        ("backfill", 100, MISSED),
    ],
)
async def test_missed_ticks(
    store: Store, observer: Observer, policy: str, limit: int, count: int
) -> None:
    due = await missed(store, observer, on_missed=policy, backfill_limit=limit)
    await store.schedules.fire(due)
    newest = due.next_run_ms + (MISSED - 1) * HOUR_MS
    wanted = [newest - back * HOUR_MS for back in reversed(range(count))]
    assert await ticks(observer) == wanted
    assert await told(store) == [("enqueued", "accepted")] * count
    assert await next_run(store) == newest + HOUR_MS


async def test_a_paused_schedule_is_never_due(store: Store, observer: Observer) -> None:
    due = await missed(store, observer)
    await observer.execute("UPDATE headgate_schedule SET paused = true")
    assert await store.schedules.due(10) == []
    assert (await store.schedules.fire(due)).events == []
    assert await count_jobs(observer) == 0
    assert await next_run(store) == due.next_run_ms


async def test_what_somebody_else_took_up_is_left_alone(store: Store, observer: Observer) -> None:
    due = await missed(store, observer)
    await store.schedules.fire(due)
    [job_id] = [row["ulid"] for row in await observer.fetch("SELECT ulid FROM headgate_job")]
    [lease] = await start(observer, [job_id])
    await store.leases.acknowledge([Acknowledgement(lease=lease, outcome=Outcome.SUCCESS)])
    assert await count_jobs(observer) == 0, "done and gone"
    assert (await store.schedules.fire(due)).events == [], "seen before it was taken up"
    assert await count_jobs(observer) == 0
    assert len(await told(store)) == 1


async def test_eight_at_once_make_one_job(
    store: Store, open_store: OpenStore, observer: Observer
) -> None:
    due = await missed(store, observer, on_missed="backfill", backfill_limit=3)
    stores = [store, *(open_store() for _ in range(3))]
    fired = await asyncio.gather(*(each.schedules.fire(due) for each in stores * 2))
    assert sorted(len(each.events) for each in fired) == [0] * 7 + [3]
    assert len(await ticks(observer)) == 3
    assert len(await told(store)) == 3


@pytest.mark.parametrize("table", ["headgate_schedule_event", "headgate_schedule"])
async def test_a_failure_in_between_leaves_nothing_and_the_next_try_one_job(
    store: Store, observer: Observer, table: str
) -> None:
    """Between the job and its event, and between the event and the next run."""
    due = await missed(store, observer)
    await observer.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'refused'; END $$;"
        f" CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON {table} EXECUTE FUNCTION refuse()"
    )
    with pytest.raises(BackendError, match="refused"):
        await store.schedules.fire(due)
    assert await count_jobs(observer) == 0
    await observer.execute(f"DROP TRIGGER refuse ON {table}")
    assert await told(store) == []
    assert await next_run(store) == due.next_run_ms
    await store.schedules.fire(due)
    assert len(await ticks(observer)) == 1


async def test_a_process_that_dies_in_between_leaves_nothing(
    store: Store, observer: Observer, headgate_database: str
) -> None:
    due = await missed(store, observer)
    other = await asyncpg.connect(headgate_database)
    await other.execute("BEGIN; LOCK TABLE headgate_schedule_event IN EXCLUSIVE MODE")
    firing = asyncio.create_task(store.schedules.fire(due))
    victim = None
    while victim is None:
        # It has written the job and waits for the lock to write the event.
        victim = await observer.fetchval(
            "SELECT pid FROM pg_locks WHERE NOT granted"
            " AND relation = 'headgate_schedule_event'::regclass"
        )
    await observer.execute("SELECT pg_terminate_backend($1)", victim)
    with pytest.raises(Exception, match="no connection"):
        await firing
    await other.close()
    assert await count_jobs(observer) == 0
    await store.schedules.fire(due)
    assert len(await ticks(observer)) == 1
    assert len(await told(store)) == 1


async def test_a_tick_whose_job_exists_is_enqueued(store: Store, observer: Observer) -> None:
    due = await missed(store, observer, on_missed="backfill", backfill_limit=MISSED)
    await store.schedules.fire(due)
    await observer.execute("UPDATE headgate_schedule SET next_run_ms = $1", due.next_run_ms)
    await store.schedules.fire(due)
    assert len(await ticks(observer)) == MISSED
    assert await told(store) == [("enqueued", "accepted")] * (2 * MISSED)


async def test_an_id_that_is_taken(store: Store, observer: Observer) -> None:
    due = await missed(store, observer, on_missed="backfill", backfill_limit=3)
    newest = due.next_run_ms + (MISSED - 1) * HOUR_MS
    taken = f"sched:hourly:{newest - HOUR_MS}"
    await store.producer.enqueue([Envelope(id=taken, kind="other")])
    await store.schedules.fire(due)
    assert await told(store) == [
        ("enqueued", "accepted"),
        ("deduplicated", "id_conflict"),
        ("enqueued", "accepted"),
    ]
    assert await ticks(observer) == [newest - 2 * HOUR_MS, newest]
    assert await next_run(store) == newest + HOUR_MS


async def test_a_unique_key_that_is_taken(store: Store, observer: Observer) -> None:
    due = await missed(store, observer, hours=1)
    key = f"sched:hourly:{due.next_run_ms}".encode()
    [holder] = await store.producer.enqueue([Envelope(kind="report", unique_key=key)])
    await store.schedules.fire(due)
    [event] = (await store.schedules.events("hourly", limit=9)).events
    assert (event.outcome, event.reason, event.job_id) == ("deduplicated", "unique_key", holder.id)
    schedule = await store.schedules.get("hourly")
    assert schedule is not None
    assert (schedule.next_run_ms, schedule.last_enqueued_ms) == (due.next_run_ms + HOUR_MS, None)


async def test_quarantined_work_is_skipped(store: Store, observer: Observer) -> None:
    due = await missed(store, observer, on_missed="backfill", backfill_limit=MISSED)
    await observer.execute(
        "INSERT INTO headgate_quarantine VALUES ($1, 'report', 3, 1)", fingerprint("report", b"")
    )
    await store.schedules.fire(due)
    assert await told(store) == [("skipped", "quarantined")] * MISSED
    assert await count_jobs(observer) == 0
    assert await next_run(store) > await now_ms(observer)


async def test_a_full_queue_leaves_the_schedule_due(store: Store, observer: Observer) -> None:
    due = await missed(store, observer)
    await observer.execute("INSERT INTO headgate_enqueue_policy VALUES ('default', 0)")
    for _ in range(3):
        await store.schedules.fire(due)
    assert await next_run(store) == due.next_run_ms
    assert await told(store) == [("failed", "backpressure")], "told once, not each second"
    schedule = await store.schedules.get("hourly")
    assert schedule is not None
    assert schedule.last_enqueued_ms is None
    await observer.execute("DELETE FROM headgate_enqueue_policy")
    await store.schedules.fire(due)
    assert await told(store) == [("enqueued", "accepted"), ("failed", "backpressure")]


async def test_a_queue_that_fills_up_takes_the_oldest(store: Store, observer: Observer) -> None:
    due = await missed(store, observer, on_missed="backfill", backfill_limit=MISSED)
    await observer.execute("INSERT INTO headgate_enqueue_policy VALUES ('default', 2)")
    await store.schedules.fire(due)
    done = [due.next_run_ms, due.next_run_ms + HOUR_MS]
    assert await ticks(observer) == done
    assert await next_run(store) == done[-1] + HOUR_MS
    assert await told(store) == [("failed", "backpressure"), *[("enqueued", "accepted")] * 2]
    await observer.execute("DELETE FROM headgate_enqueue_policy")
    await store.schedules.fire(DueSchedule(await next_run(store), "hourly"))
    assert len(await ticks(observer)) == MISSED


async def test_a_definition_that_cannot_be_enqueued_fails(store: Store, observer: Observer) -> None:
    due = await missed(store, observer)
    await observer.execute("UPDATE headgate_schedule SET kind = 'bad kind'")
    await store.schedules.fire(due)
    assert await told(store) == [("failed", "invalid_request")]
    assert await next_run(store) == due.next_run_ms


async def test_a_stored_spec_that_is_not_understood_waits_an_hour(
    store: Store, observer: Observer
) -> None:
    due = await missed(store, observer)
    await observer.execute("UPDATE headgate_schedule SET spec = 'CRON_TZ=Mars/Phobos 0 9 * * *'")
    before = await now_ms(observer)
    await store.schedules.fire(due)
    after = await now_ms(observer)
    assert await told(store) == [("failed", "invalid_spec")]
    assert before + HOUR_MS <= await next_run(store) <= after + HOUR_MS
    assert await count_jobs(observer) == 0
    schedule = await store.schedules.get("hourly")
    assert schedule is not None
    assert schedule.last_enqueued_ms is None


async def test_a_failed_sweep_is_recorded_once(store: Store, observer: Observer) -> None:
    due = await missed(store, observer)
    assert len(await store.schedules.fail(due, "store_error")) == 1
    assert await store.schedules.fail(due, "store_error") == []
    assert await told(store) == [("failed", "store_error")]
    assert await store.schedules.fail(DueSchedule(1, "hourly"), "store_error") == [], "moved on"
    assert await store.schedules.fail(DueSchedule(1, "gone"), "store_error") == []


async def test_the_due_come_in_order_and_in_pages(store: Store, observer: Observer) -> None:
    for name, hours in (("b", 2), ("a", 2), ("c", 3), ("d", 1)):
        await missed(store, observer, id=name, hours=hours)
    await store.schedules.put(ScheduleDefinition(id="later", kind="report", spec="0 0 1 1 *"))
    everything = await store.schedules.due(10)
    assert [each.id for each in everything] == ["c", "a", "b", "d"]
    first = await store.schedules.due(2)
    assert first == everything[:2]
    assert await store.schedules.due(2, after=first[-1]) == everything[2:]
    assert await store.schedules.due(2, after=everything[-1]) == []


async def test_a_hundred_events_are_kept_and_survive(store: Store, observer: Observer) -> None:
    await store.schedules.fire(await missed(store, observer, id="other"))
    await observer.execute("DELETE FROM headgate_job")
    due = await missed(store, observer, hours=150, on_missed="backfill", backfill_limit=150)
    await store.schedules.fire(due)
    assert len(await ticks(observer)) == 150
    newest = due.next_run_ms + 149 * HOUR_MS
    page = await store.schedules.events("hourly", limit=100)
    assert [event.tick_ms for event in page.events] == [
        newest - back * HOUR_MS for back in range(100)
    ]
    await observer.execute("UPDATE headgate_schedule SET next_run_ms = $1", newest)
    await store.schedules.fire(DueSchedule(newest, "hourly"))
    assert await told(store, "other") == [("enqueued", "accepted")]
    again = await store.schedules.events("hourly", limit=100)
    assert [each.event_id for each in again.events[1:]] == [
        each.event_id for each in page.events[:-1]
    ]
    await store.schedules.delete("hourly")
    assert (await store.schedules.events("hourly", limit=100)).events == again.events


async def test_events_of_deleted_schedules_go_in_the_end(store: Store, observer: Observer) -> None:
    for name in ("kept", "deleted", "undeclared"):
        await store.schedules.fire(await missed(store, observer, id=name))
    await observer.execute(
        "UPDATE headgate_schedule SET declared_by = 'shop' WHERE id = 'undeclared'"
    )
    await store.schedules.delete("deleted")
    assert await store.schedules.declare([], owner="shop", prune=True) == ["undeclared"]
    await observer.execute(
        "UPDATE headgate_schedule_event SET orphaned_at_ms = orphaned_at_ms - $1", 24 * HOUR_MS
    )
    for days, gone in ((2, 0), (1, 2)):
        periods = RetentionPeriods(schedule_events_ms=days * 24 * HOUR_MS)
        assert (await store.retention.prune(periods, 10))["schedule_events"] == gone
    assert await told(store, "kept") == [("enqueued", "accepted")]
    assert await told(store, "deleted") == await told(store, "undeclared") == []


async def test_pages_of_events(store: Store, observer: Observer) -> None:
    due = await missed(store, observer, hours=3, on_missed="backfill", backfill_limit=3)
    await missed(store, observer, hours=3, id="other", on_missed="backfill", backfill_limit=3)
    for each in await store.schedules.due(10):
        await store.schedules.fire(each)
    first = await store.schedules.events("hourly", limit=2)
    assert [event.tick_ms - due.next_run_ms for event in first.events] == [2 * HOUR_MS, HOUR_MS]
    assert first.next_cursor == first.events[-1].event_id
    second = await store.schedules.events("hourly", limit=2, cursor=first.next_cursor)
    assert [event.tick_ms for event in second.events] == [due.next_run_ms]
    assert second.next_cursor is None
    assert len((await store.schedules.events("hourly", limit=3, cursor=2**64)).events) == 3
    assert (await store.schedules.events("hourly", limit=3, cursor=0)).events == []
    for limit in (0, 101):
        with pytest.raises(InvalidRequest, match="schedule event limit must be between 1 and 100"):
            await store.schedules.events("hourly", limit=limit)


async def test_more_ticks_than_one_sweep_takes_up(
    store: Store, observer: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.model.periodic.MAX_TICKS", 3)
    due = await missed(store, observer, hours=7, on_missed="backfill", backfill_limit=6)
    unfinished = []
    for _ in range(2):
        fired = await store.schedules.fire(DueSchedule(await next_run(store), "hourly"))
        unfinished.append(fired.unfinished)
    assert unfinished == [True, False]
    assert await ticks(observer) == [due.next_run_ms + n * HOUR_MS for n in range(1, 7)]


async def test_large_payloads_make_small_sweeps(store: Store, observer: Observer) -> None:
    due = await missed(
        store, observer, hours=20, on_missed="backfill", backfill_limit=20, payload=b"x" * 1_000_000
    )
    sweeps = 1
    while (await store.schedules.fire(due)).unfinished:
        due = DueSchedule(await next_run(store), "hourly")
        sweeps += 1
    assert len(await ticks(observer)) == 20
    assert sweeps == 3
