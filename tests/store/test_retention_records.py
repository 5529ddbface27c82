"""Prunes: records of all kinds go after their period, in bounded batches."""

import asyncio

import pytest

from headgate.model.envelope import Envelope
from headgate.model.errors import InvalidRequest
from headgate.model.job import RequestKey, WorkerBeat
from headgate.model.limits import MAX_MS
from headgate.model.operation import JobSelector
from headgate.model.retention import RetentionPeriods
from headgate.queries.retention import RECORDS
from headgate.store.store import Store
from tests.store.races import somebody
from tests.store.rows import HOUR_MS, Observer, now_ms
from tests.store.test_retention import DAY_MS

# What each kind of record is written with: a row that ended at an instant given.
SAMPLES = {
    "queue_counters": "INSERT INTO headgate_queue_counter VALUES ($1, $2, 1, 1)",
    "partition_minutes": "INSERT INTO headgate_partition_counter VALUES ($1, 'p', $2, 1, 1)",
    "operations": "INSERT INTO headgate_operation (id, action, selector, status, finished_at_ms)"
    " VALUES ($1, 'delete', '{}', 'completed', $2)",
    "workers": "INSERT INTO headgate_worker (worker_id, heartbeat_at_ms) VALUES ($1, $2)",
    "schedule_events": "INSERT INTO headgate_schedule_event (schedule_id, tick_ms, job_id, outcome,"
    " recorded_at_ms, orphaned_at_ms) VALUES ($1, 1, 'j', 'enqueued', 1, $2)",
    "effects": "INSERT INTO headgate_effect VALUES ($1, $2)",
    "idempotency": "INSERT INTO headgate_idempotency (identity, method, route, key, request_hash,"
    " status, body, recorded_at_ms) VALUES ('', 'POST', '/', $1, '', 200, '', $2)",
    "enqueue_keys": "INSERT INTO headgate_enqueue_key VALUES ('mail', $1, 'j', $2)",
    "audit": "INSERT INTO headgate_audit (at_ms, identity, role, method, route, target,"
    " idempotency_key, status) VALUES ($2, $1, '', '', '', '', '', 200)",
}
PERIODS = {
    "queue_counters": 31 * DAY_MS,
    "partition_minutes": 8 * DAY_MS,
    "operations": 7 * DAY_MS,
    "workers": DAY_MS,
    "schedule_events": 30 * DAY_MS,
    "effects": 30 * DAY_MS,
    "idempotency": DAY_MS,
    "enqueue_keys": DAY_MS,
    "audit": 90 * DAY_MS,
}
FOR_EVER = RetentionPeriods(**dict.fromkeys(RetentionPeriods.__struct_fields__, 0))


async def write(observer: Observer, record: str, name: str, ended_ago_ms: int) -> None:
    await observer.execute(SAMPLES[record], name, await now_ms(observer) - ended_ago_ms)


async def remaining(observer: Observer, record: str) -> int:
    rows = await observer.fetch(f"TABLE {RECORDS[record].table.name}")
    return len(rows)


def test_every_record_has_a_sample() -> None:
    assert set(SAMPLES) == set(PERIODS) == set(RECORDS)


class TestPrune:
    @pytest.mark.parametrize("record", SAMPLES)
    async def test_what_is_past_its_period_goes(
        self, store: Store, observer: Observer, record: str
    ) -> None:
        period = PERIODS[record]
        await write(observer, record, "old", period + HOUR_MS)
        await write(observer, record, "young", period - HOUR_MS)
        pruned = await store.retention.prune(RetentionPeriods(), 100)
        assert pruned.pop(record) == 1
        assert set(pruned.values()) == {0}
        assert await remaining(observer, record) == 1

    @pytest.mark.parametrize("record", SAMPLES)
    async def test_bounded(self, store: Store, observer: Observer, record: str) -> None:
        for number in range(5):
            await write(observer, record, f"r{number}", 1_000 * DAY_MS + number)
        taken = [(await store.retention.prune(RetentionPeriods(), 2))[record] for _ in range(4)]
        assert taken == [2, 2, 1, 0]

    @pytest.mark.parametrize("record", SAMPLES)
    async def test_zero_is_for_ever(self, store: Store, observer: Observer, record: str) -> None:
        await write(observer, record, "old", 10_000 * DAY_MS)
        assert record not in await store.retention.prune(FOR_EVER, 100)
        assert await remaining(observer, record) == 1

    async def test_the_oldest_go_first(self, store: Store, observer: Observer) -> None:
        for number in range(4):
            await write(observer, "effects", f"e{number}", 1_000 * DAY_MS - number * DAY_MS)
        await store.retention.prune(RetentionPeriods(), 2)
        rows = await observer.fetch("SELECT key FROM headgate_effect ORDER BY key")
        assert [row["key"] for row in rows] == ["e2", "e3"]

    @pytest.mark.parametrize("status", ["pending", "running"])
    async def test_an_unfinished_operation_stays(
        self, store: Store, observer: Observer, status: str
    ) -> None:
        operation = await store.operations.create("delete", JobSelector(queue="q"))
        await observer.execute(
            "UPDATE headgate_operation SET status = $1, created_at_ms = 1", status
        )
        await store.retention.prune(RetentionPeriods(), 100)
        assert await store.operations.get(operation.id) is not None

    async def test_what_lives_stays(self, store: Store, observer: Observer) -> None:
        """What the store itself writes is young."""
        await store.workers.heartbeat(
            WorkerBeat(
                worker_id="w",
                host="h",
                pid=1,
                queues=("q",),
                concurrency=1,
                inflight=0,
                polls=0,
                empty_polls=0,
            )
        )
        await store.producer.enqueue(
            [Envelope(kind="mail")], request=RequestKey(scope="mail", key="k")
        )
        await store.operations.create("delete", JobSelector(queue="q"), dry_run=True)
        await store.upkeep.fold_ledger(100)
        pruned = await store.retention.prune(RetentionPeriods(), 100)
        assert set(pruned.values()) == {0}

    async def test_what_somebody_holds_is_passed_over(
        self, store: Store, observer: Observer, headgate_database: str
    ) -> None:
        for name in "abc":
            await write(observer, "effects", name, 100 * DAY_MS)
        async with somebody(headgate_database) as other:
            await other.execute("SELECT FROM headgate_effect WHERE key = 'b' FOR UPDATE")
            pruned = await asyncio.wait_for(store.retention.prune(RetentionPeriods(), 10), 10)
            assert pruned["effects"] == 2
        assert await remaining(observer, "effects") == 1

    def test_periods_are_durations(self) -> None:
        with pytest.raises(InvalidRequest, match="audit_ms must be >= 0"):
            RetentionPeriods(audit_ms=-1)
        with pytest.raises(InvalidRequest, match="workers_ms is too large"):
            RetentionPeriods(workers_ms=MAX_MS + 1)


class TestHours:
    """Counts of minutes become counts of hours, and none is lost on the way."""

    async def test_old_minutes_are_added_up(self, store: Store, observer: Observer) -> None:
        hour_ms = await _hour(observer, days_ago=9)
        for minute in range(60):
            await _count(observer, "q", hour_ms + minute * 60_000, 1, minute)
        await _count(observer, "other", hour_ms + 60_000, 5, 5)
        await _count(observer, "q", hour_ms + HOUR_MS, 7, 7)
        young = await _hour(observer, days_ago=7) + 60_000
        await _count(observer, "q", young, 3, 3)
        taken = [await store.retention.roll_up(RetentionPeriods(), 25) for _ in range(4)]
        # The first minute of an hour is where the others go.
        assert taken == [25, 25, 10, 0]
        assert await _counters(observer) == [
            ("other", hour_ms, 5, 5),
            ("q", hour_ms, 60, sum(range(60))),
            ("q", hour_ms + HOUR_MS, 7, 7),
            ("q", young, 3, 3),
        ]

    async def test_history_says_the_same_by_the_hour(
        self, store: Store, observer: Observer
    ) -> None:
        hour_ms = await _hour(observer, days_ago=9)
        for minute in range(0, 120, 7):
            await _count(observer, "q", hour_ms + minute * 60_000, 1, 2)
        before = await store.queues.history("q", since_ms=hour_ms, bucket_ms=HOUR_MS)
        assert await store.retention.roll_up(RetentionPeriods(), 1_000) > 0
        assert await store.queues.history("q", since_ms=hour_ms, bucket_ms=HOUR_MS) == before

    async def test_a_late_minute_is_added(self, store: Store, observer: Observer) -> None:
        hour_ms = await _hour(observer, days_ago=9)
        for _ in range(2):
            await _count(observer, "q", hour_ms + 60_000, 1, 1)
            await store.retention.roll_up(RetentionPeriods(), 10)
        assert await _counters(observer) == [("q", hour_ms, 2, 2)]

    async def test_several_at_once_count_nothing_twice(
        self, store: Store, observer: Observer
    ) -> None:
        hour_ms = await _hour(observer, days_ago=9)
        for minute in range(1, 60):
            for queue in "abc":
                await _count(observer, queue, hour_ms + minute * 60_000, 1, 1)
        await asyncio.gather(*(store.retention.roll_up(RetentionPeriods(), 20) for _ in range(12)))
        while await store.retention.roll_up(RetentionPeriods(), 100):
            pass
        assert await _counters(observer) == [(queue, hour_ms, 59, 59) for queue in "abc"]

    async def test_minutes_that_are_kept_for_longer_stay(
        self, store: Store, observer: Observer
    ) -> None:
        hour_ms = await _hour(observer, days_ago=50)
        await _count(observer, "q", hour_ms + 60_000, 1, 1)
        for minutes_ms in (0, 60 * DAY_MS):
            periods = RetentionPeriods(minute_counters_ms=minutes_ms)
            assert await store.retention.roll_up(periods, 10) == 0
            assert (await store.retention.prune(periods, 10)).get("queue_counters", 0) == 0


async def _hour(observer: Observer, *, days_ago: int) -> int:
    now = await now_ms(observer)
    return now - now % HOUR_MS - days_ago * DAY_MS


async def _count(observer: Observer, queue: str, at_ms: int, arrived: int, completed: int) -> None:
    await observer.execute(
        "INSERT INTO headgate_queue_counter VALUES ($1, $2, $3, $4)",
        queue,
        at_ms,
        arrived,
        completed,
    )


async def _counters(observer: Observer) -> list[tuple[str, int, int, int]]:
    rows = await observer.fetch("SELECT * FROM headgate_queue_counter ORDER BY queue, bucket_ms")
    return [tuple(row) for row in rows]
