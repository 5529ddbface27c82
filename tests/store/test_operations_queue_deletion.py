"""Deleting a queue that still has jobs: nothing gets in, everything goes, then it is open again."""

import asyncio
import re

import pytest

from headgate.model.envelope import Envelope
from headgate.model.errors import Backpressure, InvalidRequest
from headgate.model.job import Acknowledgement
from headgate.model.lifecycle import Outcome, State
from headgate.model.operation import JobSelector
from headgate.store.store import Store
from tests.store.backlog import weigh
from tests.store.conftest import OpenStore
from tests.store.journeys import bring
from tests.store.races import somebody
from tests.store.rows import Observer, start
from tests.store.test_bulk import now, run, states
from tests.store.test_operations import fill


async def force(store: Store, queue: str = "q") -> str:
    operation_id = await store.operations.delete_queue(queue, force=True)
    assert operation_id is not None
    return operation_id


async def work_off(store: Store, operation_id: str, batch: int = 100) -> tuple[str, int]:
    operation = await store.operations.get(operation_id)
    assert operation is not None
    await run(store, operation, batch=batch)
    done = await now(store, operation)
    return done.status, done.affected


async def limit_of(observer: Observer, queue: str = "q") -> list[int | None]:
    rows = await observer.fetch(
        "SELECT max_unfinished_jobs FROM headgate_enqueue_policy WHERE queue = $1", queue
    )
    return [row["max_unfinished_jobs"] for row in rows]


async def rows_of(observer: Observer, queue: str = "q") -> int:
    count: int = await observer.fetchval(
        "SELECT (SELECT count(*) FROM headgate_queue_state WHERE queue = $1)"
        " + (SELECT count(*) FROM headgate_enqueue_policy WHERE queue = $1)"
        " + (SELECT count(*) FROM headgate_queue_sample WHERE queue = $1)",
        queue,
    )
    return count


@pytest.mark.parametrize("forced", [False, True])
async def test_an_empty_queue_goes_at_once(store: Store, observer: Observer, forced: bool) -> None:
    await weigh(observer, "q", 3)
    await observer.execute("INSERT INTO headgate_enqueue_policy VALUES ('q', 5)")
    ended = await bring(store, observer, Envelope(kind="mail", queue="q"), State.ARCHIVED)
    assert await store.operations.delete_queue("q", force=forced) is None
    assert await rows_of(observer) == 0
    assert await states(observer, queue="q") == {"archived": 1}
    assert ended
    assert await store.operations.delete_queue("unknown", force=forced) is None
    assert await rows_of(observer, "unknown") == 0


@pytest.mark.parametrize(
    "state", [State.PENDING, State.SCHEDULED, State.AVAILABLE, State.RUNNING, State.RETRYABLE]
)
async def test_what_is_unfinished_keeps_it(store: Store, observer: Observer, state: State) -> None:
    await weigh(observer, "q", 3)
    await bring(store, observer, Envelope(kind="mail", queue="q"), state)
    with pytest.raises(InvalidRequest) as refused:
        await store.operations.delete_queue("q")
    assert refused.value.message == "queue is not empty; retry with force=true"
    assert (await rows_of(observer), await limit_of(observer)) == (1, [])
    await fill(store, 1, queue="q")


async def test_force_freezes_the_intake_and_begins(store: Store, observer: Observer) -> None:
    await fill(store, 1, queue="q12-ü/x")
    operation_id = await force(store, "q12-ü/x")
    assert re.fullmatch(r"qdel-\d{13}-q12___x", operation_id)
    operation = await store.operations.get(operation_id)
    assert operation is not None
    assert (operation.status, operation.affected, operation.total_estimated) == ("pending", 0, 1)
    with pytest.raises(Backpressure) as refused:
        await fill(store, 1, queue="q12-ü/x")
    assert (refused.value.limit, refused.value.current) == (0, 1)


async def test_everything_goes_and_the_queue_is_open_again(
    store: Store, observer: Observer
) -> None:
    await weigh(observer, "q", 3)
    await observer.execute("INSERT INTO headgate_enqueue_policy VALUES ('q', 100)")
    await observer.execute("INSERT INTO headgate_queue_sample VALUES ('q', 1, 1, 1)")
    for state in State:
        if state is not State.RUNNING:
            await bring(store, observer, Envelope(kind="mail", queue="q"), state)
            await bring(store, observer, Envelope(kind="mail", queue="other"), state)
    operation_id = await force(store)
    assert await work_off(store, operation_id, batch=2) == ("completed", 9)
    assert await states(observer, queue="q") == {}
    assert sum((await states(observer, queue="other")).values()) == 9
    assert await rows_of(observer) == 0
    await fill(store, 1, queue="q")
    await store.upkeep.fold_ledger(1_000)
    assert await store.operations.delete_queue("other", force=True) is not None


async def test_bc_45_its_unique_keys_are_free(store: Store, observer: Observer) -> None:
    job = Envelope(kind="mail", queue="q", unique_key=b"k")
    await store.producer.enqueue([job])
    assert await work_off(store, await force(store)) == ("completed", 1)
    await store.producer.enqueue([job])


@pytest.mark.parametrize("outcome", [Outcome.SUCCESS, Outcome.RETRY, Outcome.SKIP])
async def test_it_waits_for_what_runs(store: Store, observer: Observer, outcome: Outcome) -> None:
    running, *_ = await fill(store, 4, queue="q")
    [lease] = await start(observer, [running])
    operation_id = await force(store)
    assert await work_off(store, operation_id) == ("running", 3)
    assert await states(observer, queue="q") == {"running": 1}
    # It waits without getting on, and nothing gets in.
    assert await store.operations.run_pending(10) == 0
    with pytest.raises(Backpressure):
        await fill(store, 1, queue="q")
    await store.leases.acknowledge([Acknowledgement(lease=lease, outcome=outcome)])
    status, affected = await work_off(store, operation_id)
    assert (status, affected) == ("completed", 3 if outcome is Outcome.SUCCESS else 4)
    assert (await states(observer, queue="q"), await rows_of(observer)) == ({}, 0)


@pytest.mark.parametrize("newest", [False, True])
async def test_a_job_that_was_on_its_way_in_goes_too(
    store: Store, observer: Observer, headgate_database: str, newest: bool
) -> None:
    """Its transaction found no limit and commits after the freeze."""
    await fill(store, 2, queue="q")
    async with somebody(headgate_database) as producer:
        await producer.execute(
            "INSERT INTO headgate_job (ulid, kind, payload, fingerprint, queue, enqueued_at_ms,"
            " scheduled_at_ms) VALUES ('late', 'mail', '', '', 'q', 1, 1)"
        )
        if not newest:
            await fill(store, 2, queue="q")
        operation_id = await force(store)
        await store.operations.run_pending(1)
    await work_off(store, operation_id)
    assert (await states(observer, queue="q"), await rows_of(observer)) == ({}, 0)


async def test_asked_for_twice_it_is_one_operation(store: Store, observer: Observer) -> None:
    await fill(store, 3, queue="q")
    first = await force(store)
    assert await force(store) == first
    await work_off(store, first)
    await fill(store, 1, queue="q")
    assert await force(store) != first


async def test_many_at_once_begin_one_operation(store: Store, observer: Observer) -> None:
    await fill(store, 3, queue="q")
    begun = await asyncio.gather(*(force(store) for _ in range(8)))
    assert len(set(begun)) == 1


async def test_names_that_come_to_the_same(
    store: Store, observer: Observer, open_store: OpenStore
) -> None:
    await fill(store, 1, queue="a-b")
    await fill(store, 1, queue="a/b")
    # A clock that stands still.
    await observer.execute(
        "CREATE SCHEMA still; CREATE FUNCTION still.clock_timestamp() RETURNS timestamptz"
        " LANGUAGE sql AS 'SELECT to_timestamp(1750000000)'"
    )
    await observer.execute(
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = still, public,"
        " pg_catalog', current_database()); END $$"
    )
    store = open_store()
    one, two = await force(store, "a-b"), await force(store, "a/b")
    assert one == "qdel-1750000000000-a_b"
    assert re.fullmatch("qdel-1750000000000-a_b-[0-9a-f]{8}", two)


@pytest.mark.parametrize("limit", [None, 7])
@pytest.mark.parametrize("how", ["cancelled", "failed"])
async def test_ended_early_it_gives_the_intake_back(
    store: Store, observer: Observer, how: str, limit: int | None
) -> None:
    if limit is not None:
        await observer.execute("INSERT INTO headgate_enqueue_policy VALUES ('q', $1)", limit)
    await fill(store, 3, queue="q")
    operation_id = await force(store)
    await store.operations.run_pending(1)
    assert await limit_of(observer) == [0]
    if how == "cancelled":
        assert (await store.operations.cancel(operation_id)).status == "cancelled"
    else:
        await observer.execute("UPDATE headgate_operation SET cursor_state = 'running'")
        await store.operations.run_pending(1)
    operation = await store.operations.get(operation_id)
    assert operation is not None
    assert (operation.status, operation.affected) == (how, 1)
    assert await limit_of(observer) == [limit]
    await fill(store, 1, queue="q")


async def test_a_limit_that_somebody_set_meanwhile_stays(store: Store, observer: Observer) -> None:
    await fill(store, 3, queue="q")
    operation_id = await force(store)
    await observer.execute("UPDATE headgate_enqueue_policy SET max_unfinished_jobs = 9")
    await store.operations.cancel(operation_id)
    assert await limit_of(observer) == [9]


async def test_a_selection_of_the_queue_leaves_it_as_it_is(
    store: Store, observer: Observer
) -> None:
    await weigh(observer, "q", 3)
    await fill(store, 3, queue="q")
    operation = await store.operations.create("delete", JobSelector(queue="q"))
    await run(store, operation)
    assert await rows_of(observer) == 1


async def test_a_name_that_no_queue_has(store: Store) -> None:
    with pytest.raises(InvalidRequest, match="queue must not contain NUL"):
        await store.operations.delete_queue("a\0", force=True)
