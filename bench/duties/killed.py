"""Six processes with duties, and whoever takes up the schedules is killed at random."""

import asyncio
import random
import signal
import time

import asyncpg

from bench.duties.bounds import exactly
from bench.report import Figure
from headgate.store.settings import StoreSettings
from headgate.store.store import Store
from tests.chaos.fleet import Fleet, fleet
from tests.chaos.test_killed_schedulers import ARGUMENTS, HOLDER, JOURNAL
from tests.store.rows import Observer
from tests.worker.waiting import eventually

PROCESSES = 6
PERIOD_MS = 1_000
_ARGUMENTS = ("bench.duties.scheduled:app", *ARGUMENTS[1:])
_NEWEST = "SELECT max(tick) FROM journal"


async def measure(dsn: str, *, quick: bool) -> list[Figure]:
    ticks = 15 if quick else 60
    connection = await asyncpg.connect(dsn)
    await connection.execute(JOURNAL)
    with fleet(dsn, *_ARGUMENTS) as workers:
        for number in range(PROCESSES):
            workers.start(f"--worker-id=worker-{number}")
        await eventually(lambda: _reached(connection, 0), limit_ms=60_000)
        last = await connection.fetchval(_NEWEST) + (ticks - 1) * PERIOD_MS
        kills = await _kill(workers, connection, last)
        await eventually(lambda: _reached(connection, last), limit_ms=60_000)
    rows = await connection.fetch("SELECT tick FROM journal WHERE tick <= $1 ORDER BY id", last)
    await connection.close()
    made = [row["tick"] for row in rows]
    async with await Store.open(StoreSettings(dsn=dsn)) as store:
        events = (await store.schedules.events("often", limit=100)).events
    audited = {each.tick_ms for each in events if each.outcome == "enqueued"}
    name = f"{ticks} s, {PROCESSES} processes, {kills} kills"
    return [
        exactly(f"{name}: jobs", len(made), ticks),
        exactly(f"{name}: distinct ticks", len(set(made)), ticks),
        exactly(f"{name}: ticks in the audit", len(audited & set(made)), ticks),
    ]


async def _reached(connection: Observer, tick_ms: int) -> bool:
    newest = await connection.fetchval(_NEWEST)
    return newest is not None and newest >= tick_ms


async def _kill(workers: Fleet, connection: Observer, last: int) -> int:
    """Kills the holder of the duty every few seconds until the last tick is due; how often."""
    holders = {f"worker-{number}": each for number, each in enumerate(workers.processes)}
    kills = 0
    while time.time() * 1000 < last - 2 * PERIOD_MS:
        await asyncio.sleep(random.uniform(2, 6))
        holder = await connection.fetchval(HOLDER)
        if victim := holders.pop(holder, None):
            kills += 1
            workers.end_one(signal.SIGKILL, victim)
            name = f"another-{kills}"
            holders[name] = workers.start(f"--worker-id={name}")
    return kills
