"""Whether a worker's memory grows with the jobs that it runs.

As a command, `python -m bench.duties.memory DSN JOBS`: the worker; prints [early MB, late MB, tasks
left].
"""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from bench.duties.bounds import at_most, exactly
from bench.report import Figure
from headgate import Headgate, Worker, WorkerConfig
from headgate.model.envelope import Envelope
from headgate.store.settings import StoreSettings
from headgate.store.store import Store
from tests.worker.waiting import eventually

_EARLY = 20_000
_BATCH = 1_000
_GROWTH = 1.15


async def measure(dsn: str, *, quick: bool) -> list[Figure]:
    jobs = 40_000 if quick else 200_000
    command = [sys.executable, "-m", "bench.duties.memory", dsn, str(jobs)]
    child = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    answer, _ = await child.communicate()
    early, late, tasks = json.loads(answer)
    return [
        at_most(f"a worker after {jobs:,} jobs, MB; bound 1.15x of early", late, early * _GROWTH),
        exactly("tasks that are left of a worker", tasks, 0),
    ]


async def work(dsn: str, jobs: int) -> tuple[float, float, int]:
    app = Headgate()
    run = 0

    @app.task("noop")
    async def noop() -> None:
        nonlocal run
        run += 1

    before = len(asyncio.all_tasks())
    async with await Store.open(StoreSettings(dsn=dsn)) as store:

        async def reached(number: int) -> None:
            await eventually(lambda: run >= number, limit_ms=60_000)

        worker = Worker(app, store, WorkerConfig(concurrency=50))
        working = asyncio.create_task(worker.run())
        early = 0.0
        for enqueued in range(_BATCH, jobs + 1, _BATCH):
            await store.producer.enqueue([Envelope(kind="noop", payload=b"null")] * _BATCH)
            await reached(enqueued - 2 * _BATCH)
            if early == 0 and run >= _EARLY:
                early = _resident_mb()
        await reached(jobs)
        late = _resident_mb()
        worker.shutdown()
        await working
    return early, late, len(asyncio.all_tasks()) - before


def _resident_mb() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


if __name__ == "__main__":
    print(json.dumps(asyncio.run(work(sys.argv[1], int(sys.argv[2])))))
