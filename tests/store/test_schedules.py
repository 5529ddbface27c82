"""Defining schedules and reading them back."""

import pytest

from headgate.model.envelope import Envelope
from headgate.model.errors import InvalidRequest, NotFound
from headgate.model.limits import MAX_INT32, MAX_MS, MAX_SCHEDULE_ID_BYTES
from headgate.model.page import PageRequest
from headgate.model.periodic import ScheduleDefinition
from headgate.store.store import Store
from tests.store.rows import HOUR_MS, Observer, job_row, now_ms

HOURLY = ScheduleDefinition(id="hourly", kind="report", spec=f"@every:{HOUR_MS}")
FULL = ScheduleDefinition(
    id="a/b:c",
    kind="report",
    spec="CRON_TZ=Asia/Kolkata 0 9 * * *",
    payload=b"\0\xff",
    schema_version=3,
    queue="slow",
    partition_key="tenant",
    rate_class="mail",
    priority=-5,
    weight=7,
    max_attempts=2,
    timeout_ms=1_000,
    retention_ms=60_000,
    tags=("a", "b"),
    on_missed="backfill",
    backfill_limit=3,
    paused=True,
)


async def test_what_is_put_can_be_read(store: Store, observer: Observer) -> None:
    await store.schedules.put(FULL)
    assert await store.schedules.definition(FULL.id) == FULL
    shown = await store.schedules.get(FULL.id)
    assert shown is not None
    for name in ("id", "kind", "spec", "queue", "priority", "on_missed", "backfill_limit"):
        assert getattr(shown, name) == getattr(FULL, name)
    assert (shown.paused, shown.last_enqueued_ms) == (True, None)
    row = await observer.fetchrow("SELECT * FROM headgate_schedule")
    assert row is not None
    assert row["schema_version"] == 3
    assert abs(row["updated_at_ms"] - await now_ms(observer)) < 60_000
    assert await store.schedules.definition("other") is None
    assert await store.schedules.get("other") is None


async def test_the_defaults(store: Store) -> None:
    await store.schedules.put(HOURLY)
    shown = await store.schedules.get("hourly")
    assert shown is not None
    assert (shown.queue, shown.max_attempts, shown.on_missed) == ("default", 25, "skip")
    assert (shown.backfill_limit, shown.paused, shown.retention_ms) == (0, False, 0)


async def test_the_first_run_is_the_next_one_of_the_database(
    store: Store, observer: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: 0.0)
    monkeypatch.setattr("time.time_ns", lambda: 0)
    before = await now_ms(observer)
    await store.schedules.put(HOURLY)
    after = await now_ms(observer)
    shown = await store.schedules.get("hourly")
    assert shown is not None
    assert shown.next_run_ms % HOUR_MS == 0
    assert before < shown.next_run_ms <= after + HOUR_MS


async def test_the_same_spec_keeps_its_next_run(store: Store, observer: Observer) -> None:
    await store.schedules.put(HOURLY)
    await observer.execute("UPDATE headgate_schedule SET next_run_ms = 123, last_enqueued_ms = 5")
    other = ScheduleDefinition(
        id="hourly", kind="mail", spec=HOURLY.spec, paused=True, payload=b"new"
    )
    await store.schedules.put(other)
    assert await store.schedules.definition("hourly") == other
    shown = await store.schedules.get("hourly")
    assert shown is not None
    assert (shown.next_run_ms, shown.last_enqueued_ms, shown.kind) == (123, 5, "mail")


@pytest.mark.parametrize("spec", ["@every:7200000", "CRON_TZ=UTC 0 * * * *"])
async def test_another_spec_begins_anew(store: Store, observer: Observer, spec: str) -> None:
    await store.schedules.put(HOURLY)
    await observer.execute("UPDATE headgate_schedule SET next_run_ms = 123")
    await store.schedules.put(ScheduleDefinition(id="hourly", kind="report", spec=spec))
    shown = await store.schedules.get("hourly")
    assert shown is not None
    assert shown.next_run_ms > await now_ms(observer)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"on_missed": "zz", "spec": "bad"}, "on_missed must be skip|run_once|backfill"),
        ({"spec": "bad", "kind": "bad kind"}, "bad cron `bad`: want 5 fields, or 6 with seconds"),
        ({"spec": "0 0 30 2 *"}, "cron `0 0 30 2 *` has no future occurrence"),
        ({"kind": "bad kind"}, "invalid kind `bad kind`: 1-128 characters,"),
        ({"id": ""}, "schedule id must not be empty"),
        ({"id": "a\0"}, "schedule id must not contain NUL"),
        ({"id": "a" * (MAX_SCHEDULE_ID_BYTES + 1)}, "schedule id must be at most 200 bytes"),
        ({"queue": ""}, "queue must not be empty"),
        ({"queue": "q" * 256}, "queue must be at most 255 bytes"),
        ({"max_attempts": 0}, "max_attempts must be >= 1"),
        ({"max_attempts": MAX_INT32 + 1}, "max_attempts is too large"),
        ({"schema_version": 0}, "schema_version must be >= 1"),
        ({"weight": 0}, "weight must be >= 1"),
        ({"backfill_limit": MAX_INT32 + 1}, "backfill_limit is too large"),
        ({"backfill_limit": -1}, "backfill_limit must be >= 0"),
        ({"retention_ms": -1}, "retention_ms must be >= 0"),
        ({"retention_ms": MAX_MS + 1}, "retention_ms is too large"),
        ({"priority": MAX_INT32 + 1}, "priority is too large"),
        ({"tags": ("a", "a")}, "tags must not contain duplicates"),
        ({"payload": b"x" * 1_048_577}, "payload must be at most 1048576 bytes"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
async def test_what_could_not_be_enqueued_is_refused(
    store: Store, change: dict[str, object], message: str
) -> None:
    fields = {"id": "hourly", "kind": "report", "spec": HOURLY.spec, **change}
    with pytest.raises(InvalidRequest) as error:
        await store.schedules.put(ScheduleDefinition(**fields))  # type: ignore[arg-type]
    assert error.value.message.startswith(message)
    assert (await store.schedules.page(PageRequest())).items == []


async def test_the_longest_id_has_ticks(store: Store, observer: Observer) -> None:
    schedule_id = "é" * (MAX_SCHEDULE_ID_BYTES // 2)
    longest = ScheduleDefinition(id=schedule_id, kind="report", spec="@every:1")
    await store.schedules.put(longest)
    [due] = await store.schedules.due(10)
    await store.schedules.fire(due)
    assert await observer.fetchval("SELECT periodic_schedule_id FROM headgate_job") == schedule_id


async def test_pages_are_in_the_order_of_the_ids(store: Store) -> None:
    for name in ("c", "a", "b"):
        await store.schedules.put(ScheduleDefinition(id=name, kind="report", spec="@every:1"))
    first = await store.schedules.page(PageRequest(limit=2))
    assert ([each.id for each in first.items], first.next_cursor) == (["a", "b"], 2)
    second = await store.schedules.page(PageRequest(limit=2, cursor=2))
    assert ([each.id for each in second.items], second.next_cursor) == (["c"], None)
    assert (await store.schedules.page(PageRequest(cursor=9))).items == []


async def test_deleting(store: Store) -> None:
    await store.schedules.put(HOURLY)
    await store.schedules.delete("hourly")
    assert await store.schedules.get("hourly") is None
    with pytest.raises(NotFound) as error:
        await store.schedules.delete("hourly")
    assert str(error.value) == "not found: schedule hourly"
    with pytest.raises(InvalidRequest, match="schedule id must not contain NUL"):
        await store.schedules.delete("a\0")


async def test_what_cannot_be_stored_is_not_found(store: Store) -> None:
    for strange in ("a\0", "a\ud800"):
        assert await store.schedules.get(strange) is None
        assert (await store.schedules.events(strange, limit=1)).events == []


async def test_running_now_makes_one_job_more(store: Store, observer: Observer) -> None:
    await store.schedules.put(FULL)
    before = await store.schedules.get(FULL.id)
    job = await store.schedules.run_now(FULL.id)
    assert await store.schedules.get(FULL.id) == before
    row = await job_row(observer, job.id)
    assert row is not None
    for name in (
        "kind",
        "payload",
        "schema_version",
        "queue",
        "partition_key",
        "rate_class",
        "priority",
        "weight",
        "max_attempts",
        "timeout_ms",
        "retention_ms",
    ):
        assert row[name] == getattr(FULL, name)
    assert (row["periodic_schedule_id"], row["periodic_tick_ms"]) == ("", 0)
    assert row["unique_key"] is None
    assert (await store.schedules.events(FULL.id, limit=1)).events == []


async def test_a_request_to_run_now_may_be_repeated(store: Store) -> None:
    for name in ("a", "a:b", "report"):
        await store.schedules.put(ScheduleDefinition(id=name, kind="report", spec=HOURLY.spec))
    first = await store.schedules.run_now("a", request_key="b:c")
    again = await store.schedules.run_now("a", request_key="b:c")
    assert (again.id, again.replayed) == (first.id, True)
    ids = {
        first.id,
        (await store.schedules.run_now("a:b", request_key="c")).id,
        (await store.schedules.run_now("a", request_key="c")).id,
        (await store.schedules.run_now("report", request_key="b:c")).id,
        (await store.producer.enqueue([Envelope(kind="report")]))[0].id,
    }
    assert len(ids) == 5


async def test_running_what_is_not_there(store: Store) -> None:
    with pytest.raises(NotFound, match="not found: schedule no"):
        await store.schedules.run_now("no")
