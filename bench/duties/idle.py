"""What sweeps read that find nothing to do, among a million jobs."""

import asyncpg

from bench.duties.bounds import at_most
from bench.report import Figure
from headgate.queries.reclaim import running_window
from headgate.store.database import GATE_SETTINGS
from headgate.store.settings import StoreSettings
from headgate.store.store import Store
from tests.store.plans import pages_read, plan_of
from tests.store.sweeps import IDLE_PAGES, SWEEPS, fill_idle


async def measure(dsn: str, *, quick: bool) -> list[Figure]:
    jobs = 100_000 if quick else 1_000_000
    connection = await asyncpg.connect(dsn, server_settings=dict(GATE_SETTINGS))
    try:
        async with await Store.open(StoreSettings(dsn=dsn)) as store:
            await fill_idle(connection, store, jobs)
        figures = []
        for name, (statement, parameters) in SWEEPS.items():
            plan = await plan_of(connection, statement, parameters, "force_generic_plan")
            figures.append(at_most(f"idle, {name}: pages", pages_read(plan), IDLE_PAGES))
        plan = await plan_of(connection, running_window(), {"after_id": 0}, "force_generic_plan")
        # A window of 5,000 rows, each on a page of its own at worst, and their index.
        figures.append(at_most("idle, window of running jobs: pages", pages_read(plan), 5_200))
        return figures
    finally:
        await connection.close()
