"""Workers are killed without a warning, one every second; nothing of their work may be lost."""

import asyncio
import signal
from typing import Any

import asyncpg
import pytest

from headgate.model.envelope import Envelope
from headgate.store.store import Store
from tests.chaos.fleet import Fleet, fleet

JOBS = 10_000
WORKERS = 4
KILLS = 12
LEASE_MS = 3_000
PATIENCE_SECONDS = 150
ARGUMENTS = (
    "tests.chaos.application:app",
    "--queues=chaos",
    "--concurrency=16",
    f"--lease-ms={LEASE_MS}",
    "--log-level=error",
)

AT_WORK = "SELECT EXISTS (SELECT FROM headgate_job WHERE state = 'running')"
UNFINISHED = (
    "SELECT count(*) FROM headgate_job WHERE state NOT IN ('completed', 'archived', 'quarantined')"
)


@pytest.mark.timeout(300)
async def test_jobs_survive_the_death_of_their_workers(
    headgate_database: str, store: Store
) -> None:
    for start in range(0, JOBS, 1_000):
        await store.producer.enqueue(
            [
                Envelope(
                    kind="chaos",
                    queue="chaos",
                    payload=b'{"number": %d}' % number,
                    partition_key=str(number % 7),
                    max_attempts=4,
                    retention_ms=3_600_000,
                )
                for number in range(start, start + 1_000)
            ]
        )
    observer = await asyncpg.connect(headgate_database)
    try:
        with fleet(headgate_database, *ARGUMENTS) as workers:
            for _ in range(WORKERS):
                workers.start()
            await _kill_until_done(workers, observer)
            assert set(await asyncio.to_thread(workers.stop)) == {0}
        await _assert_whole(observer)
        while await store.upkeep.fold_ledger(20_000):
            pass
        await _assert_counts(observer)
    finally:
        await observer.close()


async def _kill_until_done(workers: Fleet, observer: Any) -> None:
    kills = 0
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await observer.fetchval(UNFINISHED):
            # The rhythm of the deaths, not a wait for something.
            await asyncio.sleep(1)
            if kills < KILLS and await observer.fetchval(AT_WORK):
                await asyncio.to_thread(workers.end_one, signal.SIGKILL, workers.oldest())
                workers.start()
                kills += 1
    assert kills >= 3, "the work was done before anybody died"


async def _assert_whole(observer: Any) -> None:
    """Every job is there, ended as the lifecycle says, and holds no lease."""
    states = {
        row["state"]: row["n"]
        for row in await observer.fetch(
            "SELECT state::text, count(*) AS n FROM headgate_job GROUP BY state"
        )
    }
    assert sum(states.values()) == JOBS
    assert states["completed"] > JOBS * 0.9
    wrong = await observer.fetch(
        "SELECT ulid, state::text, attempt, crash_attempt, lease_id FROM headgate_job WHERE NOT ("
        " lease_id IS NULL AND claimed_by IS NULL AND finalized_at_ms IS NOT NULL AND CASE state"
        " WHEN 'completed' THEN attempt < 4 AND crash_attempt < 3"
        " WHEN 'archived' THEN attempt = 4 AND crash_attempt < 3"
        " WHEN 'quarantined' THEN crash_attempt = 3"
        " ELSE false END"
        " AND fence >= attempt + crash_attempt"
        " AND jsonb_array_length(errors) = attempt + crash_attempt)"
    )
    assert wrong == []
    crashed = await observer.fetchval("SELECT count(*) FROM headgate_job WHERE crash_attempt > 0")
    assert crashed > 0, "nobody died with work in hand"


async def _assert_counts(observer: Any) -> None:
    """The folded counts are those of the rows."""
    rows = await observer.fetch(
        "SELECT queue, state::text, count(*) AS n FROM headgate_job GROUP BY 1, 2 ORDER BY 1, 2"
    )
    counts = await observer.fetch(
        "SELECT queue, state::text, n FROM headgate_queue_count WHERE n <> 0 ORDER BY 1, 2"
    )
    assert [tuple(row) for row in counts] == [tuple(row) for row in rows]
    assert await observer.fetchval("SELECT count(*) FROM headgate_partition_count") == 0
    assert await observer.fetchval("SELECT sum(arrived) FROM headgate_queue_counter") == JOBS
    completed = sum(row["n"] for row in rows if row["state"] == "completed")
    assert await observer.fetchval("SELECT sum(completed) FROM headgate_queue_counter") == completed
