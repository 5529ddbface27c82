"""A worker keeps nothing of a job that is over."""

import asyncio
import gc
from collections import Counter

from headgate import Headgate, Store
from tests.store.rows import Observer
from tests.worker.conftest import StartWorker
from tests.worker.waiting import eventually

JOBS = 300


async def test_neither_objects_nor_tasks_are_left_of_jobs(
    app: Headgate, store: Store, observer: Observer, start_worker: StartWorker
) -> None:
    """What a worker of a week's age holds beyond a fresh one, two rounds would show as well."""
    ended = 0

    @app.task("job", max_attempts=1)
    async def job(number: int) -> int | None:
        nonlocal ended
        ended += 1
        if number % 3 == 0:
            raise ValueError("no")
        return number if number % 3 == 1 else None

    start_worker(concurrency=20)

    async def round_of_jobs() -> tuple[Counter[str], int]:
        wanted = ended + JOBS
        await app.enqueue_many([job.job(number) for number in range(JOBS)])
        await eventually(lambda: ended == wanted)
        running = "SELECT 1 FROM headgate_job WHERE state IN ('available', 'running')"

        async def all_reported() -> bool:
            return not await observer.fetch(running)

        await eventually(all_reported)
        await asyncio.sleep(0)
        gc.collect()
        kinds = Counter(type(each).__qualname__ for each in gc.get_objects())
        return kinds, len(asyncio.all_tasks())

    # Caches fill, prepared statements are made, the pool grows.
    await round_of_jobs()
    before, tasks_before = await round_of_jobs()
    after, tasks_after = await round_of_jobs()
    grown = {kind: n for kind, n in (after - before).items() if n >= JOBS // 4}
    assert not grown
    assert tasks_after <= tasks_before + 2
