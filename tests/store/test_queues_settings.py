"""What operators set on queues, the sample of memory, and deleting a queue."""

import asyncio
from collections.abc import Callable

import pytest

from headgate.model.envelope import Envelope
from headgate.model.errors import Backpressure, InvalidRequest
from headgate.model.lifecycle import State
from headgate.store.store import Store
from tests.store.backlog import admit, fill
from tests.store.journeys import LIVE_STATES, TERMINAL_STATES, bring
from tests.store.races import blocked, somebody
from tests.store.rows import Observer
from tests.store.test_queues import fold, queues

LONG = "é" * 128

_KEPT = """
SELECT 'state', queue FROM headgate_queue_state UNION SELECT 'policy', queue
FROM headgate_enqueue_policy UNION SELECT 'sample', queue FROM headgate_queue_sample UNION
SELECT 'count', queue FROM headgate_queue_count
"""


async def test_a_weight_is_changed_and_nothing_else(store: Store) -> None:
    await store.queues.pause("q")
    await store.queues.set_weight("q", 3)
    await store.queues.set_weight("q", 2_147_483_647)
    queue = (await queues(store))["q"]
    assert (queue.weight, queue.paused) == (2_147_483_647, True)


@pytest.mark.parametrize(
    ("weight", "text"),
    [
        (0, "weight must be >= 1"),
        (-5, "weight must be >= 1"),
        (2_147_483_648, "weight is too large"),
        (2**64, "weight is too large"),
    ],
)
async def test_weights_that_cannot_be(store: Store, weight: int, text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await store.queues.set_weight("q", weight)
    assert refused.value.message == text
    assert await queues(store) == {}


async def test_pause_and_resume(store: Store) -> None:
    await fill(store, 2, queue="q")
    for _ in range(2):
        await store.queues.pause("q")
    assert (await queues(store))["q"].paused
    assert await admit(store, 5, "q") == []
    await fill(store, 1, queue="q")
    for _ in range(2):
        await store.queues.resume("q")
    assert not (await queues(store))["q"].paused
    assert len(await admit(store, 5, "q")) == 3


async def test_resuming_a_queue_that_nobody_knows(store: Store) -> None:
    await store.queues.resume("q")
    assert not (await queues(store))["q"].paused


async def test_a_limit_on_what_comes_in(store: Store) -> None:
    await fill(store, 3, queue="q")
    await store.queues.set_enqueue_limit("q", 2)
    assert (await queues(store))["q"].max_unfinished_jobs == 2
    with pytest.raises(Backpressure):
        await fill(store, 1, queue="q")
    await store.queues.set_enqueue_limit("q", 0)
    assert (await queues(store))["q"].max_unfinished_jobs == 0
    await store.queues.clear_enqueue_limit("q")
    assert (await queues(store))["q"].max_unfinished_jobs is None
    await fill(store, 1, queue="q")
    await store.queues.set_enqueue_limit("q", 2**63 - 1)
    await fill(store, 1, queue="q")


async def test_a_limit_that_was_not_there(store: Store) -> None:
    await store.queues.clear_enqueue_limit("q")
    assert await queues(store) == {}


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        (-1, "max_unfinished_jobs must be >= 0"),
        (2**63, "max_unfinished_jobs is too large"),
    ],
)
async def test_limits_that_cannot_be(store: Store, limit: int, text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await store.queues.set_enqueue_limit("q", limit)
    assert refused.value.message == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a\0", "queue must not contain NUL"),
        ("\ud800", "queue must not contain lone surrogates"),
        (LONG, "queue must be at most 255 bytes"),
    ],
)
@pytest.mark.parametrize(
    "change",
    [
        lambda store, name: store.queues.pause(name),
        lambda store, name: store.queues.resume(name),
        lambda store, name: store.queues.set_weight(name, 1),
        lambda store, name: store.queues.set_enqueue_limit(name, 1),
        lambda store, name: store.queues.clear_enqueue_limit(name),
    ],
)
async def test_names_that_no_row_can_hold(
    store: Store, name: str, text: str, change: Callable[..., object]
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await change(store, name)  # type: ignore[misc]  # each of them is a coroutine
    assert refused.value.message == text


async def test_memory_of_the_newest_jobs(store: Store, observer: Observer) -> None:
    await store.queues.pause("empty")
    await fill(store, 3, queue="small", payload=b"x" * 100)
    await fill(store, 30, queue="large", payload=b"x" * 1_000)
    await fill(store, 2, queue="large", payload=b"y" * 10)
    assert await store.queues.sample_memory() == 2
    found = await queues(store)
    assert found["empty"].memory_bytes is None
    assert 3 * 300 < (found["small"].memory_bytes or 0) < 3 * 700
    assert 30 * 1_200 < (found["large"].memory_bytes or 0) < 30 * 1_600 + 2 * 700
    await observer.execute(
        "UPDATE headgate_job SET state = 'archived' WHERE queue = 'large' AND payload < '\\x79'"
    )
    assert await store.queues.sample_memory(2) == 2
    assert 2 * 200 < ((await queues(store))["large"].memory_bytes or 0) < 2 * 700
    row = await observer.fetchrow("SELECT * FROM headgate_queue_sample WHERE queue = 'large'")
    assert row is not None
    assert row["sampled_jobs"] == 2


async def test_what_is_stored_apart_is_weighed_where_it_is(
    store: Store, observer: Observer
) -> None:
    payload = await observer.fetchval(
        "SELECT string_agg(sha256(n::text::bytea), '') FROM generate_series(1, 20000) AS n"
    )
    await fill(store, 1, queue="q", payload=payload)
    await store.queues.sample_memory()
    size = (await queues(store))["q"].memory_bytes or 0
    assert len(payload) < size < len(payload) + 1_000


@pytest.mark.parametrize(("asked", "jobs"), [(0, 1), (-7, 1), (2**32, 5)])
async def test_the_sample_has_a_size(
    store: Store, observer: Observer, asked: int, jobs: int
) -> None:
    await fill(store, 5, queue="q")
    await store.queues.sample_memory(asked)
    assert await observer.fetchval("SELECT sampled_jobs FROM headgate_queue_sample") == jobs


async def test_each_queue_is_sampled_in_its_turn(store: Store, observer: Observer) -> None:
    await store.producer.enqueue(
        [Envelope(kind="mail", queue=f"q{number:03}") for number in range(250)]
    )
    assert await store.queues.sample_memory() == 200
    assert await store.queues.sample_memory() == 200
    assert await observer.fetchval("SELECT count(*) FROM headgate_queue_sample") == 250


async def test_deleting_a_queue(store: Store, observer: Observer) -> None:
    for queue in ("q", "other"):
        await store.queues.set_weight(queue, 3)
        await store.queues.set_enqueue_limit(queue, 5)
        await fill(store, 1, queue=queue)
    await store.queues.sample_memory()
    await fold(store)
    await observer.execute("DELETE FROM headgate_job")
    await fold(store)
    rows = set(await observer.fetch(_KEPT))
    assert len(rows) == 6
    await store.operations.delete_queue("q")
    assert set(await observer.fetch(_KEPT)) == {row for row in rows if row["queue"] == "other"}
    await observer.execute("DELETE FROM headgate_queue_counter")
    assert list(await queues(store)) == ["other"]
    await store.operations.delete_queue("q")
    await store.operations.delete_queue("nobody's")


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("state", LIVE_STATES)
async def test_a_queue_with_work_is_not_deleted(
    store: Store, observer: Observer, state: State, folded: bool
) -> None:
    await store.queues.set_weight("q", 3)
    await bring(store, observer, Envelope(kind="mail", queue="q"), state)
    if folded:
        await fold(store)
    with pytest.raises(InvalidRequest) as refused:
        await store.operations.delete_queue("q")
    assert refused.value.message == "queue is not empty; retry with force=true"
    assert (await queues(store))["q"].weight == 3


async def test_finished_jobs_do_not_hold_a_queue(store: Store, observer: Observer) -> None:
    await store.queues.set_weight("q", 3)
    for state in TERMINAL_STATES:
        await bring(store, observer, Envelope(kind="mail", queue="q"), state)
    await store.operations.delete_queue("q")
    queue = (await queues(store))["q"]
    assert (queue.weight, queue.unfinished_jobs) == (1, 0)
    assert queue.by_state == {state.value: 1 for state in TERMINAL_STATES}


async def test_deleting_waits_for_producers_that_are_held_to_the_limit(
    store: Store, observer: Observer, headgate_database: str
) -> None:
    await store.queues.set_enqueue_limit("q", 5)
    async with somebody(headgate_database) as producer:
        await producer.execute("SELECT FROM headgate_enqueue_policy FOR UPDATE")
        deleting = asyncio.create_task(store.operations.delete_queue("q"))
        await blocked(observer)
        await producer.execute(
            "INSERT INTO headgate_job (ulid, kind, payload, fingerprint, queue, enqueued_at_ms,"
            " scheduled_at_ms) VALUES ('job', 'mail', '', '', 'q', 0, 0)"
        )
    with pytest.raises(InvalidRequest, match="queue is not empty"):
        await deleting
    assert (await queues(store))["q"].max_unfinished_jobs == 5


async def failing(store: Store) -> None:
    async with store.database.transaction() as session:
        await store.within(session).queues.pause("q")
        await store.within(session).queues.set_weight("q", 4)
        raise ZeroDivisionError


async def test_changes_inside_a_transaction_of_the_caller(store: Store) -> None:
    with pytest.raises(ZeroDivisionError):
        await failing(store)
    assert await queues(store) == {}
    async with store.database.transaction() as session:
        await store.within(session).queues.set_weight("q", 4)
        with pytest.raises(InvalidRequest):
            await store.within(session).queues.set_weight("q", 0)
        assert list(await queues(store)) == []
    assert (await queues(store))["q"].weight == 4
