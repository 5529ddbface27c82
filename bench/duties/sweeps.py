"""How fast sweeps work off a backlog, how much memory they need, and what a worker feels of it."""

import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import asyncpg

from bench.duties.bounds import at_least, at_most, p99
from bench.report import Figure
from headgate.duties.loop import Loop
from headgate.duties.promoter import Promoter
from headgate.duties.reclaimer import Reclaimer
from headgate.duties.retention import Evictions
from headgate.duties.runner import work_off
from headgate.store.settings import StoreSettings
from headgate.store.store import Store

_JOBS = """
INSERT INTO headgate_job (ulid, kind, payload, fingerprint, queue, state, partition_key,
  enqueued_at_ms, scheduled_at_ms, finalized_at_ms, retention_ms, lease_id, lease_expires_at_ms,
  claimed_at_ms, claimed_by)
SELECT $1 || n, 'noop', decode(md5(n::text), 'hex'), md5(n::text), 'q' || n % 20,
  $1::headgate_state, 'p' || n % 50, 1, 1, CASE $1 WHEN 'completed' THEN 1 END, 1,
  CASE $1 WHEN 'running' THEN 'lease' || n END, CASE $1 WHEN 'running' THEN 1 END,
  CASE $1 WHEN 'running' THEN 1 END, CASE $1 WHEN 'running' THEN 'dead' END
FROM generate_series(1, $2::int) AS n
"""
_CLEAR = "DELETE FROM headgate_job WHERE queue <> 'claims'"
_LEFT = "SELECT count(*) FROM headgate_job WHERE state = $1::headgate_state AND queue <> 'claims'"


class Sweep(NamedTuple):
    """A duty and the state that it empties: of so many jobs, so many times, at least so fast."""

    duty: type[Loop]
    state: str
    jobs: int
    quick_jobs: int
    least_per_second: int
    rounds: int = 1


# A few thousand jobs are reclaimed before a claimer has noticed, so they are several times.
SWEEPS: dict[str, Sweep] = {
    "promote": Sweep(Promoter, "scheduled", 200_000, 20_000, 2_000),
    "evict": Sweep(Evictions, "completed", 200_000, 20_000, 2_000),
    "reclaim": Sweep(Reclaimer, "running", 2_000, 2_000, 1_000, rounds=20),
}
_MEMORY_MB = 20
_SLOWER = 2


async def measure(dsn: str, *, quick: bool) -> list[Figure]:
    figures: list[Figure] = []
    idle_s = 2 if quick else 3
    connection = await asyncpg.connect(dsn)
    async with await Store.open(StoreSettings(dsn=dsn)) as store:
        for name, sweep in SWEEPS.items():
            jobs = sweep.quick_jobs if quick else sweep.jobs
            await _fill(connection, sweep.state, jobs)
            memory = _peak_mb()
            swept: list[tuple[float, float]] = []
            with _claiming(dsn) as claimed:
                await asyncio.sleep(idle_s)
                idle_until = time.monotonic()
                for number in range(sweep.rounds):
                    if number:
                        await connection.execute(_CLEAR)
                        await _fill(connection, sweep.state, jobs)
                    began = time.monotonic()
                    assert await work_off(store, sweep.duty(), "bench"), name
                    swept.append((began, time.monotonic()))
                    assert await connection.fetchval(_LEFT, sweep.state) == 0, name
                idle_from = time.monotonic()
                await asyncio.sleep(idle_s)
            during = [ms for moment, ms in claimed if any(a <= moment <= b for a, b in swept)]
            idle = [ms for moment, ms in claimed if not idle_until <= moment <= idle_from]
            seconds = sum(ended - began for began, ended in swept)
            figures += [
                at_least(
                    f"{name} {jobs:,} rows/s",
                    jobs * sweep.rounds / seconds,
                    sweep.least_per_second,
                ),
                at_most(f"{name}: growth of memory, MB", _peak_mb() - memory, _MEMORY_MB),
                at_most(
                    f"{name}: claim p99 ms of {len(during)}, bound {_SLOWER}x idle",
                    p99(during),
                    round(_SLOWER * p99(idle), 2),
                ),
            ]
            await connection.execute("DELETE FROM headgate_job")
    await connection.close()
    return figures


async def _fill(connection: "asyncpg.Connection[Any]", state: str, jobs: int) -> None:
    await connection.execute(_JOBS, state, jobs)
    await connection.execute("VACUUM ANALYZE")
    await connection.execute("CHECKPOINT")


@contextmanager
def _claiming(dsn: str) -> Iterator[list[tuple[float, float]]]:
    """Another process that claims meanwhile; what it measured is there after the block."""
    claimed: list[tuple[float, float]] = []
    child = subprocess.Popen(
        [sys.executable, "-m", "bench.duties.claimer", dsn],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "start\n"
        yield claimed
        answer, _ = child.communicate("\n", timeout=30)
        claimed += [(moment, ms) for moment, ms in json.loads(answer)]
    finally:
        child.kill()
        child.wait()


def _peak_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)
