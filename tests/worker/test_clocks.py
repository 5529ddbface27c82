"""Time is the database's: neither zones nor a worker whose clock is wrong change what is due."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import asyncpg
import pytest

from headgate import Headgate, InvalidRequest, Store
from headgate.duties.promoter import Promoter
from headgate.duties.reclaimer import Reclaimer
from headgate.model.envelope import Envelope
from tests.store.backlog import admit, bucket
from tests.store.rows import Observer, now_ms, start, state_of

TEN_MINUTES_S = 600
MINUTE = timedelta(minutes=1)
INDIA = timezone(timedelta(hours=5, minutes=30))


@pytest.fixture
def in_india(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The process lives there."""
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_india")
@pytest.mark.parametrize("zone", [UTC, INDIA, timezone(timedelta(hours=-7))])
async def test_an_instant_is_one_in_any_zone(
    headgate_database: str, app: Headgate, observer: Observer, zone: timezone
) -> None:
    """The sessions of the database have a zone of their own, too."""
    await observer.execute(
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET timezone = ''Asia/Kolkata''',"
        " current_database()); END $$"
    )
    fresh = await asyncpg.connect(headgate_database)
    assert await fresh.fetchval("SHOW timezone") == "Asia/Kolkata"

    @app.task("mail")
    async def mail() -> None: ...

    at = datetime.now(zone) + MINUTE
    job = await app.enqueue(mail.job(scheduled_at=at))
    scheduled_ms = await fresh.fetchval(
        "SELECT scheduled_at_ms FROM headgate_job WHERE ulid = $1", job.id
    )
    await fresh.close()
    assert scheduled_ms == int(at.timestamp() * 1000)
    assert 50_000 < scheduled_ms - await now_ms(observer) <= 60_000


async def test_an_instant_without_a_zone_is_refused(app: Headgate) -> None:
    @app.task("mail")
    async def mail() -> None: ...

    with pytest.raises(InvalidRequest, match="scheduled_at"):
        mail.job(scheduled_at=datetime.now() + MINUTE)


async def test_a_wrong_clock_makes_nothing_due(
    store: Store, observer: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First ten minutes fast, then ten minutes slow."""
    await bucket(observer, "slow", 1, window_ms=TEN_MINUTES_S * 1_000, tokens=0)
    later, leased, limited = await store.producer.enqueue(
        [
            Envelope(kind="mail", delay_ms=300_000),
            Envelope(kind="mail"),
            Envelope(kind="mail", queue="limited", rate_class="slow"),
        ]
    )
    await start(observer, [leased.id], lease_ms=300_000)
    true_clock = time.time
    for error_s in (TEN_MINUTES_S, -TEN_MINUTES_S):
        monkeypatch.setattr("time.time", lambda error_s=error_s: true_clock() + error_s)
        monkeypatch.setattr(
            "time.time_ns", lambda error_s=error_s: int((true_clock() + error_s) * 1e9)
        )
        assert await Promoter().run_once(store) == 0
        assert await Reclaimer().run_once(store) == 0
        assert await admit(store, 10, "default", "limited") == []
        [soon] = await store.producer.enqueue([Envelope(kind="mail", delay_ms=60_000)])
        row = await observer.fetchrow(
            "SELECT scheduled_at_ms - enqueued_at_ms AS delay, enqueued_at_ms FROM headgate_job"
            " WHERE ulid = $1",
            soon.id,
        )
        assert row is not None
        assert row["delay"] == 60_000
        assert abs(row["enqueued_at_ms"] - await now_ms(observer)) < 30_000
    assert await state_of(observer, later.id) == "scheduled"
    assert await state_of(observer, leased.id) == "running"
    assert await state_of(observer, limited.id) == "available"
