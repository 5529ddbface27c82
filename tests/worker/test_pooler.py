"""A worker behind a transaction pooler: polling alone, and no session of its own."""

import asyncio
from typing import Any

from headgate import Headgate, JobContext, Store, StoreSettings, Worker, WorkerConfig
from tests.store.proxy import Pooler, listening, through
from tests.store.rows import Observer, job_row
from tests.worker.conftest import QUICK
from tests.worker.waiting import reaches

HOUR_MS = 3_600_000


async def test_bc_73_every_part_of_a_job_works_behind_a_pooler(
    headgate_database: str, observer: Observer
) -> None:
    await observer.execute("CREATE TABLE charge (id bigint GENERATED ALWAYS AS IDENTITY)")
    app = Headgate()

    async def charge(connection: Any) -> bytes:
        await connection.execute("INSERT INTO charge DEFAULT VALUES")
        return b"\0\xff"

    @app.task("plain", retention_ms=HOUR_MS)
    async def plain(payload: dict[str, str]) -> dict[str, str]:
        return payload

    @app.task("whole", retention_ms=HOUR_MS)
    async def whole(ctx: JobContext) -> None:
        await ctx.step("one", ctx.log, "one")
        await ctx.progress(1, 2)
        await ctx.step_once("charge", charge)
        await ctx.once(charge)

    pooler = Pooler(headgate_database, sessions=4)
    async with listening(pooler) as port:
        dsn = through(headgate_database, port)
        # A busy machine is no outage.
        settings = StoreSettings(dsn=dsn, pooler=True, pool_size=4, connect_timeout_ms=30_000)
        async with Store(settings) as store:
            app.bind(store)
            worker = Worker(app, store, WorkerConfig(**{**QUICK, "duties": True}))
            running = asyncio.create_task(worker.run())
            jobs = [await plain.enqueue({"n": str(n)}, tags=["a"]) for n in range(20)]
            last = await whole.enqueue(headers={"a": "b"}, delay_ms=1)
            for job in (*jobs, last):
                await reaches(observer, job.id, "completed")
            worker.shutdown()
            await running
    row = await job_row(observer, last.id)
    assert row is not None
    assert row["result_bytes"] == b"\0\xff"
    assert await observer.fetchval("SELECT count(*) FROM charge") == 2
