"""The archive: copies of evicted jobs stay for their time, month by month."""

import asyncio
import json
from datetime import UTC, datetime

import pytest

from headgate.duties.archive import ArchiveMonths
from headgate.model.archive import ArchivedJob, ArchivePolicy
from headgate.model.envelope import Envelope
from headgate.model.errors import InvalidRequest, NotFound, StoreUnavailable
from headgate.model.job import Acknowledgement
from headgate.model.lifecycle import Outcome
from headgate.model.limits import MAX_MS
from headgate.model.month import Month
from headgate.model.page import PageRequest
from headgate.store.migration import upgrade
from headgate.store.store import Store
from tests.store.backlog import someone_waits
from tests.store.conftest import OpenStore
from tests.store.races import somebody
from tests.store.rows import Observer, now_ms, start
from tests.store.test_retention import DAY_MS, ended
from tests.store.test_retention_records import FOR_EVER

CLOSED = "archive partition is open or still contains retained rows"


async def archived_at(observer: Observer, at_ms: int, name: str, kept_ms: int = 1) -> None:
    await observer.execute(
        "INSERT INTO headgate_job_archive"
        " VALUES ($1, 1, $2, 'mail', 'q', 'archived', '', 1, 0, '', '[]', $3)",
        at_ms,
        name,
        kept_ms,
    )


async def this_month(observer: Observer) -> Month:
    return Month.of(await now_ms(observer))


async def partition_of(observer: Observer, name: str) -> str:
    found: str = await observer.fetchval(
        "SELECT tableoid::regclass::text FROM headgate_job_archive WHERE ulid = $1", name
    )
    return found.removeprefix("headgate_job_archive_")


async def add_month(observer: Observer, month: Month) -> None:
    """A place for a month long past, as a duty made it then."""
    await observer.execute(
        f"CREATE TABLE headgate_job_archive_{month} PARTITION OF headgate_job_archive"
        f" FOR VALUES FROM ({month.begins_ms}) TO ({month.next().begins_ms})"
    )


class TestArchive:
    async def test_an_evicted_job_is_kept_where_there_is_a_policy(
        self, store: Store, observer: Observer
    ) -> None:
        await store.archive.set_policy("kept", DAY_MS)
        job = Envelope(kind="mail", queue="kept", payload=b"\x00\xff", retention_ms=1)
        [enqueued] = await store.producer.enqueue([job])
        [lease] = await start(observer, [enqueued.id])
        report = Acknowledgement(lease=lease, outcome=Outcome.SKIP, error="enough")
        await store.leases.acknowledge([report])
        row = await observer.fetchrow("SELECT * FROM headgate_job")
        assert row is not None
        await ended(store, observer, 1, queue="other")
        await observer.execute("UPDATE headgate_job SET finalized_at_ms = 7")
        began = await now_ms(observer)
        evicted = await store.retention.evict_retained(10)
        assert {gone.queue: gone.archived for gone in evicted} == {"kept": True, "other": False}

        page = await store.archive.page("kept", limit=10)
        [archived] = page.jobs
        assert archived == ArchivedJob(
            id=enqueued.id,
            kind="mail",
            queue="kept",
            state="archived",
            fingerprint=row["fingerprint"],
            attempt=row["attempt"],
            crash_attempt=0,
            errors=json.loads(row["errors"]),
            finalized_at_ms=7,
            evicted_at_ms=archived.evicted_at_ms,
            archive_retention_ms=DAY_MS,
        )
        assert archived.errors[0]["error"] == "enough"
        assert began <= archived.evicted_at_ms <= await now_ms(observer)
        stored = await observer.fetch("SELECT payload FROM headgate_job_archive")
        assert [row["payload"] for row in stored] == [b"\x00\xff"]
        assert (await store.archive.page("other", limit=10)).jobs == []
        # The archive holds no id.
        await store.producer.enqueue([Envelope(kind="mail", id=enqueued.id)])

    async def test_dead_letters_are_archived_too(self, store: Store, observer: Observer) -> None:
        await store.archive.set_policy("q", DAY_MS)
        await ended(store, observer, 2, queue="q", retention_ms=0)
        assert len(await store.retention.evict_dead_letters(10, 1)) == 2
        assert len((await store.archive.page("q", limit=10)).jobs) == 2

    async def test_policies_concern_what_comes(self, store: Store, observer: Observer) -> None:
        for policy_ms in (DAY_MS, 2 * DAY_MS, None):
            if policy_ms is None:
                await store.archive.clear_policy("q")
            else:
                await store.archive.set_policy("q", policy_ms)
            await ended(store, observer, 1, queue="q")
            await store.retention.evict_retained(10)
        kept = [job.archive_retention_ms for job in (await store.archive.page("q", limit=10)).jobs]
        assert kept == [2 * DAY_MS, DAY_MS]

    @pytest.mark.parametrize(
        ("queue", "retention_ms", "text"),
        [
            ("q", MAX_MS + 1, "archive retention is too large"),
            ("q", 0, "queue and archive retention >= 1ms are required"),
            ("", 1, "queue and archive retention >= 1ms are required"),
            ("a\0", 1, "queue must not contain NUL"),
            ("q" * 256, 1, "queue must be at most 255 bytes"),
        ],
    )
    async def test_a_policy_that_cannot_be_kept(
        self, store: Store, queue: str, retention_ms: int, text: str
    ) -> None:
        with pytest.raises(InvalidRequest) as refused:
            await store.archive.set_policy(queue, retention_ms)
        assert refused.value.message == text

    async def test_pages_last_evicted_first(self, store: Store, observer: Observer) -> None:
        """Also across months."""
        await store.archive.prepare_months()
        await observer.execute(
            "INSERT INTO headgate_job_archive SELECT $1::bigint + n / 2 * $2::bigint, 1,"
            " 'id-' || n, 'mail', q, 'archived', '', 1, 0, '', '[]', 1"
            " FROM generate_series(0, 24) AS n, (VALUES ('a'), ('q'), ('z')) AS queues (q)"
            " ON CONFLICT DO NOTHING",
            await now_ms(observer),
            5 * DAY_MS,
        )
        await observer.execute("UPDATE headgate_job_archive SET queue = 'q' WHERE ulid <> 'id-7'")
        seen: list[str] = []
        cursor = None
        while True:
            page = await store.archive.page("q", limit=5, cursor=cursor)
            seen += [job.id for job in page.jobs]
            cursor = page.next_cursor
            if cursor is None:
                break
        rows = await observer.fetch(
            "SELECT ulid FROM headgate_job_archive WHERE queue = 'q'"
            " ORDER BY evicted_at_ms DESC, ulid DESC"
        )
        assert seen == [row["ulid"] for row in rows]
        assert len(seen) == 24

    @pytest.mark.parametrize("cursor", ["", "x", "1", "1-", "-1-a", "1" * 19 + "-a", "1-\0"])
    async def test_a_cursor_that_no_page_gave(self, store: Store, cursor: str) -> None:
        with pytest.raises(InvalidRequest, match="bad cursor"):
            await store.archive.page("q", limit=5, cursor=cursor)
        with pytest.raises(InvalidRequest, match="limit must be between 1 and 200"):
            await store.archive.page("q", limit=201)

    async def test_copies_go_after_their_retention(self, store: Store, observer: Observer) -> None:
        now = await now_ms(observer)
        for number, kept_ms in enumerate((DAY_MS, 3 * DAY_MS, DAY_MS)):
            await observer.execute(
                "INSERT INTO headgate_job_archive VALUES ($1, 1, $2, 'mail', 'q', 'archived', '',"
                " 1, 0, '', '[]', $3)",
                now - 2 * DAY_MS,
                f"j{number}",
                kept_ms,
            )
        taken = [(await store.retention.prune(FOR_EVER, 1))["archive"] for _ in range(3)]
        assert taken == [1, 1, 0]
        assert [job.id for job in (await store.archive.page("q", limit=5)).jobs] == ["j1"]


class TestMonths:
    async def test_places_are_made_ahead_of_time(self, store: Store, observer: Observer) -> None:
        month = await this_month(observer)
        ahead = [str(month), str(month.next()), str(month.next().next())]
        assert await store.archive.prepare_months() == ahead
        assert await store.archive.prepare_months() == []
        assert [(each.month, each.open) for each in await store.archive.months()] == [
            (each, True) for each in ahead
        ]
        await archived_at(observer, await now_ms(observer), "now")
        assert await partition_of(observer, "now") == str(month)
        await archived_at(observer, month.next().next().next().begins_ms - 1, "far")
        assert await partition_of(observer, "far") == ahead[-1]
        await archived_at(observer, month.next().next().next().begins_ms, "beyond")
        assert await partition_of(observer, "beyond") == "default"

    async def test_they_have_the_indexes_of_the_archive(
        self, store: Store, observer: Observer
    ) -> None:
        await store.archive.prepare_months()
        indexes = await observer.fetch(
            "SELECT inhrelid, inhparent::regclass::text FROM pg_inherits"
            " WHERE inhparent IN (SELECT indexrelid FROM pg_index"
            " WHERE indrelid = 'headgate_job_archive'::regclass)"
        )
        # Three, of the default partition and of three months.
        assert len(indexes) == 3 * 4

    async def test_a_month_that_began_without_one_stays_without(
        self, store: Store, observer: Observer
    ) -> None:
        await archived_at(observer, await now_ms(observer), "early")
        month = await this_month(observer)
        assert await store.archive.prepare_months() == [
            str(month.next()),
            str(month.next().next()),
        ]
        assert await partition_of(observer, "early") == "default"

    async def test_many_at_once(self, store: Store, observer: Observer) -> None:
        made = await asyncio.gather(*(store.archive.prepare_months() for _ in range(8)))
        assert sorted(map(len, made)) == [0] * 7 + [3]

    async def test_in_a_schema_of_its_own(
        self, open_store: OpenStore, observer: Observer, headgate_database: str
    ) -> None:
        schema = 'odd "schema\'s" name'
        await upgrade(headgate_database, schema)
        other = open_store(schema=schema)
        assert len(await other.archive.prepare_months()) == 3
        assert await open_store().archive.months() == []
        assert len(await other.archive.months()) == 3
        with pytest.raises(InvalidRequest, match=CLOSED):
            await other.archive.prune_month(str(await this_month(observer)))

    async def test_whoever_holds_the_archive_is_not_waited_for_long(
        self, store: Store, headgate_database: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("headgate.store.archive._PATIENCE", (("lock_timeout", "50"),))
        async with somebody(headgate_database) as other:
            await other.execute("LOCK TABLE headgate_job_archive IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(StoreUnavailable, match="lock timed out"):
                await store.archive.prepare_months()
        assert len(await store.archive.prepare_months()) == 3

    async def test_a_month_that_is_over_is_emptied_as_a_whole(
        self, store: Store, observer: Observer
    ) -> None:
        month = Month(2025, 2)
        await add_month(observer, month)
        for number in range(3):
            await archived_at(observer, month.begins_ms + number, f"j{number}")
        await archived_at(observer, await now_ms(observer), "young")
        assert await store.archive.prune_month("202502") == 3
        rows = await observer.fetch("SELECT ulid FROM headgate_job_archive")
        assert [row["ulid"] for row in rows] == ["young"]
        assert await store.archive.prune_month("202502") == 0

    async def test_not_while_a_job_of_it_is_kept(self, store: Store, observer: Observer) -> None:
        month = Month(2025, 2)
        await add_month(observer, month)
        await archived_at(observer, month.begins_ms, "short")
        await archived_at(observer, month.begins_ms + 1, "long", kept_ms=MAX_MS // 2)
        with pytest.raises(InvalidRequest, match=CLOSED):
            await store.archive.prune_month("202502")
        assert await observer.fetchval("SELECT count(*) FROM headgate_job_archive") == 2

    async def test_not_before_it_is_over(self, store: Store, observer: Observer) -> None:
        await store.archive.prepare_months()
        month = await this_month(observer)
        for each in (month, month.next()):
            with pytest.raises(InvalidRequest, match=CLOSED):
                await store.archive.prune_month(str(each))

    async def test_what_is_being_written_is_waited_for(
        self, store: Store, observer: Observer, headgate_database: str
    ) -> None:
        month = Month(2025, 2)
        await add_month(observer, month)
        async with somebody(headgate_database) as other:
            await archived_at(other, month.begins_ms, "late", kept_ms=MAX_MS // 2)
            pruning = asyncio.create_task(store.archive.prune_month("202502"))
            await someone_waits(observer, other)
            await other.execute("COMMIT")
        with pytest.raises(InvalidRequest, match=CLOSED):
            await pruning

    @pytest.mark.parametrize(
        "month", ["", "2025", "202513", "202500", "2025-1", "20251\u0661", "000001"]
    )
    async def test_no_month(self, store: Store, month: str) -> None:
        with pytest.raises(InvalidRequest, match="archive month must have YYYYMM form"):
            await store.archive.prune_month(month)

    async def test_a_month_without_a_place(self, store: Store) -> None:
        with pytest.raises(NotFound, match="archive month 200001"):
            await store.archive.prune_month("200001")

    async def test_empty_months_lose_their_place(self, store: Store, observer: Observer) -> None:
        for month in (Month(2025, 2), Month(2025, 3), Month(2025, 12)):
            await add_month(observer, month)
        await archived_at(observer, Month(2025, 3).begins_ms, "kept", kept_ms=MAX_MS // 2)
        duty = ArchiveMonths()
        assert await duty.run_once(store) == 5
        assert await duty.run_once(store) == 0
        months = [each.month for each in await store.archive.months()]
        assert months[0] == "202503"
        assert len(months) == 4


async def test_policies_by_queue(store: Store) -> None:
    for queue in ("b", "a"):
        await store.archive.set_policy(queue, DAY_MS)
    page = await store.archive.policies(PageRequest())
    assert page.items == [ArchivePolicy("a", DAY_MS), ArchivePolicy("b", DAY_MS)]


def test_months_follow_each_other() -> None:
    month = Month(2024, 12)
    assert (str(month), str(month.next())) == ("202412", "202501")
    assert month.begins_ms == datetime(2024, 12, 1, tzinfo=UTC).timestamp() * 1000
    assert Month.of(month.next().begins_ms - 1) == month
    assert Month.of(month.next().begins_ms) == month.next() == Month.parse("202501")
