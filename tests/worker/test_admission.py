"""How a worker gets its jobs: in batches, at once when it is woken, and without notifications."""

import asyncio
import time

from headgate import Envelope, Headgate, Store, StoreSettings, Worker, WorkerConfig
from headgate.model.policy import ConcurrencyLimit, RateClassPolicy, Saturation
from tests.store.rows import Observer
from tests.worker.conftest import QUICK, StartWorker
from tests.worker.waiting import eventually


async def test_never_more_handlers_run_than_allowed(
    app: Headgate, start_worker: StartWorker
) -> None:
    running = 0
    most = 0
    done = 0

    @app.task("works")
    async def works() -> None:
        nonlocal running, most, done
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.002)
        running -= 1
        done += 1

    await app.enqueue_many([works.job() for _ in range(300)])
    start_worker(concurrency=7)
    await eventually(lambda: done == 300)
    assert most == 7


async def test_quick_jobs_are_admitted_in_batches(
    app: Headgate, store: Store, start_worker: StartWorker
) -> None:
    done = 0
    asked: list[int] = []
    admit = store.gate.admit

    async def counting(worker: str, queues: object, capacity: int, lease_ms: int) -> object:
        asked.append(capacity)
        return await admit(worker, queues, capacity, lease_ms)  # type: ignore[arg-type]

    store.gate.admit = counting  # type: ignore[method-assign,assignment]

    @app.task("works")
    async def works() -> None:
        nonlocal done
        done += 1

    for _ in range(4):
        await app.enqueue_many([works.job() for _ in range(1_000)])
    start_worker(concurrency=10)
    await eventually(lambda: done == 4_000)
    assert len(asked) < 4_000 / 10, asked


async def test_an_enqueue_wakes_a_worker_that_sleeps(
    app: Headgate, start_worker: StartWorker
) -> None:
    began: list[float] = []

    @app.task("works")
    async def works() -> None:
        began.append(time.monotonic())

    worker = start_worker(poll_floor_ms=60_000, poll_ceiling_ms=60_000)
    await works.enqueue()
    await eventually(lambda: len(began) == 1)
    await eventually(lambda: worker.held == 0)
    enqueued_at = time.monotonic()
    await works.enqueue()
    await eventually(lambda: len(began) == 2, limit_ms=5_000)
    assert began[1] - enqueued_at < 2.0


async def test_an_idle_worker_looks_again_at_a_refill(
    app: Headgate, store: Store, start_worker: StartWorker
) -> None:
    done: list[int] = []

    @app.task("works", rate_class="api")
    async def works(number: int) -> None:
        done.append(number)

    await store.policies.put_rate_class("api", RateClassPolicy(limit=5, window_ms=1_000, burst=1))
    await app.enqueue_many([works.job(number) for number in range(4)])
    # Without a refill in sight it would rest for a minute.
    start_worker(concurrency=1, prefetch_ms=0, poll_floor_ms=60_000, poll_ceiling_ms=60_000)
    await eventually(lambda: len(done) == 4)


async def test_an_idle_worker_looks_again_when_a_partition_has_room(
    app: Headgate, store: Store, start_worker: StartWorker
) -> None:
    done: list[int] = []

    @app.task("works")
    async def works(number: int) -> None:
        done.append(number)

    limit = ConcurrencyLimit(
        name="one", queue="default", max_concurrent=1, on_saturated=Saturation.QUEUE
    )
    await store.policies.put_concurrency_limit(limit)
    await app.enqueue_many([works.job(number) for number in range(4)])
    # Without an end in sight it would rest for a minute.
    start_worker(
        concurrency=2,
        prefetch_ms=0,
        poll_floor_ms=1,
        poll_multiplier=60_000,
        poll_ceiling_ms=60_000,
    )
    await eventually(lambda: len(done) == 4)


async def test_a_free_slot_is_filled_at_once(app: Headgate, start_worker: StartWorker) -> None:
    order: list[int] = []
    gates = [asyncio.Event() for _ in range(3)]

    @app.task("works")
    async def works(number: int) -> None:
        order.append(number)
        await gates[number].wait()

    for number in range(3):
        await works.enqueue(number)
    start_worker(concurrency=1, poll_floor_ms=60_000, poll_ceiling_ms=60_000)
    for number in range(3):
        await eventually(lambda: order == list(range(number + 1)))  # noqa: B023  # awaited at once
        gates[number].set()


async def test_polling_alone_finds_every_job(headgate_database: str) -> None:
    """Behind a transaction pooler there is no LISTEN, and no session is ours."""
    app = Headgate()
    done: list[bytes] = []

    @app.task("works")
    async def works(ctx, payload: str) -> None:  # type: ignore[no-untyped-def]  # by its name
        done.append(payload.encode() + ctx.headers["h"].encode())

    settings = StoreSettings(dsn=headgate_database, pooler=True, connect_timeout_ms=30_000)
    async with await Store.open(settings) as store:
        assert not store.listener.enabled
        worker = Worker(app, store, WorkerConfig(**QUICK))
        running = asyncio.create_task(worker.run())
        app.bind(store)
        for number in range(3):
            await works.enqueue("é", headers={"h": "\u2028"})
            await eventually(lambda: len(done) == number + 1)  # noqa: B023  # awaited at once
        await eventually(lambda: worker.held == 0)
        worker.shutdown()
        await running
    assert done == ["é\u2028".encode()] * 3


async def test_a_job_that_waits_behind_slow_ones_goes_back(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    """Taken ahead on the strength of quick jobs, it must not wait here for the slow ones."""
    go_on = asyncio.Event()

    @app.task("works")
    async def works(slow: bool) -> None:
        if slow:
            await go_on.wait()

    for _ in range(2):
        await app.enqueue_many([works.job(False) for _ in range(400)])
    await app.enqueue_many([works.job(True) for _ in range(50)])
    worker = start_worker(concurrency=2)
    await eventually(lambda: worker.held > 2 and worker.running == 2)

    async def others_wait() -> bool:
        available = await observer.fetchval(
            "SELECT count(*) FROM headgate_job WHERE state = 'available'"
        )
        return worker.held == 2 and available == 48

    await eventually(others_wait)
    go_on.set()
    await eventually(lambda: worker.held == 0)


async def test_the_registry_counts_polls(
    app: Headgate, start_worker: StartWorker, observer: Observer
) -> None:
    worker = start_worker(
        lease_ms=300, poll_floor_ms=5, poll_ceiling_ms=5, queues=("a", "b"), concurrency=3
    )

    async def counted() -> bool:
        row = await observer.fetchrow("SELECT * FROM headgate_worker")
        return row is not None and row["polls"] > 3

    await eventually(counted)
    row = await observer.fetchrow("SELECT * FROM headgate_worker")
    assert row is not None
    assert (row["worker_id"], row["queues"], row["concurrency"]) == (
        worker.worker_id,
        ["a", "b"],
        3,
    )
    assert 0 < row["empty_polls"] <= row["polls"] <= 128


async def test_other_queues_are_left_alone(
    app: Headgate, start_worker: StartWorker, store: Store, observer: Observer
) -> None:
    done: list[str] = []

    @app.task("works")
    async def works(queue: str) -> None:
        done.append(queue)

    await app.enqueue_many([works.job(queue, queue=queue) for queue in ("a", "b", "c", "default")])
    await store.producer.enqueue([Envelope(kind="works", queue="d")])
    worker = start_worker(queues=("a", "c"))
    await eventually(lambda: sorted(done) == ["a", "c"] and worker.held == 0)
    rows = await observer.fetch("SELECT queue FROM headgate_job WHERE state = 'available'")
    assert sorted(row["queue"] for row in rows) == ["b", "d", "default"]
