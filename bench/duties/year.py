"""A schedule whose workers were away for a year: one pass catches up, whatever the policy."""

import time

import asyncpg

from bench.duties.bounds import at_most, exactly
from bench.report import Figure
from headgate.duties.scheduler import Scheduler
from headgate.model.periodic import MissedPolicy, ScheduleDefinition
from headgate.store.settings import StoreSettings
from headgate.store.store import Store

_YEAR_MS = 366 * 24 * 3_600_000
_BACK = (
    "UPDATE headgate_schedule SET next_run_ms ="
    " ((extract(epoch FROM clock_timestamp()) * 1000)::bigint - $1) / 60000 * 60000"
)
SPECS = ("@every:1000", "* * * * *", "CRON_TZ=Europe/Madrid */5 9-17 * * MON-FRI")


async def measure(dsn: str, *, quick: bool) -> list[Figure]:
    figures = []
    connection = await asyncpg.connect(dsn)
    async with await Store.open(StoreSettings(dsn=dsn)) as store:
        for spec in SPECS[:1] if quick else SPECS:
            for policy in MissedPolicy:
                limit = 100 if policy == MissedPolicy.BACKFILL else 0
                await store.schedules.put(
                    ScheduleDefinition(
                        id="late", kind="noop", spec=spec, on_missed=policy, backfill_limit=limit
                    )
                )
                await connection.execute(_BACK, _YEAR_MS)
                began = time.perf_counter()
                await Scheduler().run_once(store)
                took_ms = (time.perf_counter() - began) * 1000
                name = f"a year of `{spec}`, {policy}"
                made = await connection.fetchval("SELECT count(*) FROM headgate_job")
                figures += [
                    at_most(f"{name}: ms", took_ms, 1_000),
                    exactly(f"{name}: jobs", made, limit or 1),
                ]
                await connection.execute("DELETE FROM headgate_job")
                await store.schedules.delete("late")
    await connection.close()
    return figures
