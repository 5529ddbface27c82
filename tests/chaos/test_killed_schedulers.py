"""Whoever takes up the schedules is killed again and again; each tick is enqueued exactly once."""

import signal

import asyncpg
import pytest

from headgate.store.store import Store
from tests.chaos.fleet import fleet
from tests.store.rows import Observer
from tests.worker.waiting import eventually

PERIOD_MS = 100
WORKERS = 3
KILLS = 3
ARGUMENTS = ("tests.chaos.scheduled:app", "--lease-ms=3000", "--log-level=error")

# Jobs are gone when they are done, so their ids protect nothing; what was written is kept here.
JOURNAL = """
CREATE TABLE journal (id bigint PRIMARY KEY, tick bigint NOT NULL);
CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN INSERT INTO journal VALUES (new.id, new.periodic_tick_ms); RETURN NULL; END $$;
CREATE TRIGGER keep AFTER INSERT ON headgate_job FOR EACH ROW EXECUTE FUNCTION keep();
"""
HOLDER = "SELECT holder FROM headgate_duty WHERE name = 'scheduler'"
WRITTEN = "SELECT count(*) FROM journal"


@pytest.mark.timeout(120)
async def test_every_tick_is_enqueued_once(headgate_database: str, store: Store) -> None:
    observer: Observer = await asyncpg.connect(headgate_database)
    try:
        await observer.execute(JOURNAL)
        with fleet(headgate_database, *ARGUMENTS) as workers:
            names = [f"worker-{number}" for number in range(WORKERS + KILLS)]
            running = {name: workers.start(f"--worker-id={name}") for name in names[:WORKERS]}
            holders = [await _work_of_another(observer, "")]
            for name in names[WORKERS:]:
                workers.end_one(signal.SIGKILL, running[holders[-1]])
                running[name] = workers.start(f"--worker-id={name}")
                holders.append(await _work_of_another(observer, holders[-1]))
            assert all(process.ended() is None for process in workers.processes)
        rows = await observer.fetch("SELECT tick FROM journal ORDER BY id")
        ticks = [row["tick"] for row in rows]
        assert len(ticks) > 100
        assert ticks == list(range(ticks[0], ticks[-1] + 1, PERIOD_MS))
        events = (await store.schedules.events("often", limit=100)).events
        assert {(event.outcome, event.reason) for event in events} == {("enqueued", "accepted")}
    finally:
        await observer.close()


async def _work_of_another(observer: Observer, former: str) -> str:
    """Waits until somebody else holds the duty and has enqueued something; who it is."""

    async def held_by_another() -> bool:
        return await observer.fetchval(HOLDER) not in (None, former)

    await eventually(held_by_another, limit_ms=30_000)
    holder: str = await observer.fetchval(HOLDER)
    before: int = await observer.fetchval(WRITTEN)

    async def more_is_written() -> bool:
        written: int = await observer.fetchval(WRITTEN)
        return written >= before + 15

    await eventually(more_is_written, limit_ms=30_000)
    return holder
