"""Cancelling a hundred thousand jobs at once while workers run them."""

import asyncio
import time

import asyncpg

from bench.duties.bounds import at_least, exactly
from bench.report import Figure
from headgate.duties.operations import OperationsRunner
from headgate.model.job import Acknowledgement, Lease
from headgate.model.lifecycle import Outcome
from headgate.model.operation import JobSelector, Operation
from headgate.store.settings import StoreSettings
from headgate.store.store import Store

_FILL = """
INSERT INTO headgate_job (ulid, kind, payload, fingerprint, queue, partition_key, enqueued_at_ms,
  scheduled_at_ms)
SELECT 'job' || $1 || n, 'noop', '', '', 'bulk', 'p' || n % 20, 1, 1
FROM generate_series(1, $1::int) AS n
"""
_LANES = """
INSERT INTO headgate_active_partition (queue, sticky_worker, priority, partition_key, rate_class)
SELECT DISTINCT queue, sticky_worker, priority, partition_key, rate_class FROM headgate_job
ON CONFLICT DO NOTHING;
INSERT INTO headgate_inflight (queue, partition_key)
SELECT DISTINCT queue, partition_key FROM headgate_job ON CONFLICT DO NOTHING
"""
_BY_STATE = "SELECT state::text, count(*) FROM headgate_job GROUP BY 1"
WORKERS = 3


async def measure(dsn: str, *, quick: bool) -> list[Figure]:
    jobs = 10_000 if quick else 100_000
    figures: list[Figure] = []
    for stopped in (False, True):
        connection = await asyncpg.connect(dsn)
        await connection.execute("TRUNCATE headgate_job CASCADE")
        await connection.execute(_FILL, jobs)
        await connection.execute(_LANES)
        async with await Store.open(StoreSettings(dsn=dsn)) as store:
            name = "bulk cancel, stopped midway" if stopped else f"bulk cancel of {jobs:,}"
            over = asyncio.Event()
            workers = [asyncio.create_task(_work(store, over)) for _ in range(WORKERS)]
            began = time.perf_counter()
            operation = await _cancel(store, jobs // 3 if stopped else None)
            took_s = time.perf_counter() - began
            over.set()
            done = sum(await asyncio.gather(*workers))
            true = dict(await connection.fetch(_BY_STATE))
            counts = await store.counts("bulk")
            counted = counts.counts
            if not stopped:
                figures.append(at_least(f"{name}: jobs/s", operation.affected / took_s, 1_000))
            figures += [
                exactly(f"{name}: `affected`", operation.affected, true["cancelled"]),
                exactly(f"{name}: jobs in all", done + sum(true.values()), jobs),
                exactly(f"{name}: counts are exact", counted == true, True),
            ]
        await connection.close()
    return figures


async def _cancel(store: Store, stop_after: int | None) -> Operation:
    operation = await store.operations.create("cancel", JobSelector(queue="bulk"))
    runner = OperationsRunner()
    while True:
        await runner.run_once(store)
        found = await store.operations.get(operation.id)
        assert found is not None
        if found.status not in ("pending", "running"):
            return found
        if stop_after is not None and found.affected >= stop_after:
            return await store.operations.cancel(operation.id)


async def _work(store: Store, over: asyncio.Event) -> int:
    """How many jobs it has completed, which are gone."""
    done = 0
    while not over.is_set():
        claims = await store.gate.admit("worker", ("bulk",), 10, 30_000)
        acknowledged = await store.leases.acknowledge(
            [
                Acknowledgement(
                    lease=Lease(each.job_id, each.lease_id, each.fence), outcome=Outcome.SUCCESS
                )
                for each in claims
            ]
        )
        done += sum(each.state is not None for each in acknowledged)
        await asyncio.sleep(0.002)
    return done
