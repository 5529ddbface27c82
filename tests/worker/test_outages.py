"""Databases that go away: workers wait, come back, and leave nothing behind."""

import asyncio
import logging
import signal
from contextlib import suppress

import pytest

from headgate import Headgate, Store, StoreSettings, StoreUnavailable, Worker, WorkerConfig
from headgate.local import LocalServer
from headgate.model.job import JobFilter
from headgate.store.migration import upgrade
from tests.store.rows import Observer
from tests.worker.conftest import QUICK, StartProcess, StartWorker
from tests.worker.waiting import eventually

_OTHER_SESSIONS = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'headgate'
"""

_RUNNING = JobFilter(state="running")

IDLE = """
from headgate import Headgate

app = Headgate()

@app.task("quick")
async def quick() -> None:
    print("quick", flush=True)
"""


async def left_over(observer: Observer) -> dict[str, int]:
    rows = await observer.fetch("SELECT state, count(*) FROM headgate_job GROUP BY state")
    return {row["state"]: row["count"] for row in rows}


async def test_bc_71_terminated_sessions_cost_no_job(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    done: set[int] = set()

    @app.task("works")
    async def works(number: int) -> None:
        await asyncio.sleep(0.005)
        done.add(number)

    await app.enqueue_many([works.job(number) for number in range(1_000)])
    start_worker(lease_ms=1_000, duties=True, concurrency=10)
    for share in range(5):
        await eventually(lambda: len(done) >= 100 + 150 * share)  # noqa: B023  # awaited at once
        assert await observer.fetchval(_OTHER_SESSIONS) > 0

    async def all_ended() -> bool:
        return await left_over(observer) == {}

    await eventually(all_ended, limit_ms=60_000)
    assert len(done) == 1_000


async def test_bc_71_a_server_that_restarts_costs_no_job(
    server: LocalServer, caplog: pytest.LogCaptureFixture
) -> None:
    status = server.start()
    await upgrade(status.dsn)
    app = Headgate()
    done: set[int] = set()

    @app.task("works")
    async def works(number: int) -> None:
        await asyncio.sleep(0.005)
        done.add(number)

    async with await Store.open(StoreSettings(dsn=status.dsn)) as store:
        app.bind(store)
        await app.enqueue_many([works.job(number) for number in range(500)])
        config = {**QUICK, "lease_ms": 1_000, "duties": True, "concurrency": 5}
        worker = Worker(app, store, WorkerConfig(**config))
        running = asyncio.create_task(worker.run())
        await eventually(lambda: len(done) >= 50)
        await asyncio.to_thread(server.stop)
        # Handlers that still run report into the outage.
        await eventually(lambda: worker.running == 0)
        restarted = await asyncio.to_thread(server.start)
        assert restarted.dsn == status.dsn
        await eventually(lambda: len(done) == 500 and worker.held == 0, limit_ms=60_000)
        worker.shutdown()
        await running
    messages = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    outage = [text for text in messages if "store unavailable" in text]
    assert 1 <= len(outage) < 10, outage


async def test_a_worker_waits_for_a_database_that_is_not_up_yet(
    server: LocalServer, start_process: StartProcess
) -> None:
    status = server.start()
    await upgrade(status.dsn)
    server.stop()
    process = start_process(IDLE, dsn=status.dsn)
    await eventually(lambda: process.says("start: store unavailable"))
    server.start()
    await eventually(lambda: process.says("takes jobs from default"))
    async with Headgate(dsn=status.dsn) as app:

        @app.task("quick")
        async def quick() -> None: ...

        await quick.enqueue()
        await eventually(lambda: process.says("quick\n"))
    process.signal(signal.SIGTERM)
    assert process.ended(5_000) == 0, process.output
    assert "Traceback" not in process.output


async def test_bc_66_without_a_database_a_worker_still_ends(
    server: LocalServer, start_process: StartProcess
) -> None:
    status = server.start()
    await upgrade(status.dsn)
    process = start_process(
        IDLE, "--shutdown-timeout-ms", "500", "--lease-ms", "600", dsn=status.dsn
    )
    await eventually(lambda: process.says("takes jobs from default"))
    server.stop()
    await eventually(lambda: process.says("store unavailable"))
    process.signal(signal.SIGTERM)
    assert process.ended(5_500) == 1
    assert "headgate: store unavailable" in process.output
    assert "Traceback" not in process.output


async def test_bc_66_reports_that_cannot_be_delivered_are_counted(
    server: LocalServer, start_process: StartProcess
) -> None:
    status = server.start()
    await upgrade(status.dsn)
    source = IDLE.replace('print("quick", flush=True)', "await asyncio.sleep(60)")
    process = start_process(
        source.replace("from headgate", "import asyncio\nfrom headgate", 1),
        "--shutdown-timeout-ms",
        "500",
        dsn=status.dsn,
    )
    async with Headgate(dsn=status.dsn) as app:

        @app.task("quick")
        async def quick() -> None: ...

        await quick.enqueue()

        async def runs() -> bool:
            page = await app.store.inspection.jobs(_RUNNING, cursor=None, limit=1)
            return bool(page.jobs)

        await eventually(runs)
    server.stop()
    process.signal(signal.SIGTERM)
    assert process.ended(5_500) == 1
    assert "1 reports could not be delivered" in process.output


async def test_bc_72_a_read_only_database_fills_no_log(
    app: Headgate,
    store: Store,
    start_worker: StartWorker,
    observer: Observer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    done: list[int] = []

    @app.task("works")
    async def works(number: int) -> None:
        done.append(number)

    start_worker(duties=True, lease_ms=300)
    await works.enqueue(1)
    await eventually(lambda: done == [1])
    database = await observer.fetchval("SELECT current_database()")
    await observer.execute(f'ALTER DATABASE "{database}" SET default_transaction_read_only = on')
    await observer.fetchval(_OTHER_SESSIONS)
    with caplog.at_level(logging.INFO, logger="headgate"):
        await eventually(lambda: any("for 3 s now" in r.getMessage() for r in caplog.records))
        outage = [r for r in caplog.records if "store unavailable" in r.getMessage()]
        assert len(outage) <= 4, [record.getMessage() for record in outage]
        await observer.execute(f'ALTER DATABASE "{database}" RESET default_transaction_read_only')
        await observer.execute("SET default_transaction_read_only = off")
        await observer.fetchval(_OTHER_SESSIONS)

        async def works_again() -> bool:
            if len(done) == 1:
                # Whoever meets a session that has just been ended is told so.
                with suppress(StoreUnavailable):
                    await works.enqueue(2)
            return 2 in done

        await eventually(works_again)
