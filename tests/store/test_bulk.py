"""Operations as they are worked off: in batches, past what others hold, to the very end."""

import asyncio
from collections import Counter
from typing import Any

import msgspec
import pytest

from headgate.model.conditions import Facts
from headgate.model.envelope import Envelope
from headgate.model.job import Acknowledgement
from headgate.model.lifecycle import OPERATOR_ACTIONS, OperatorAction, Outcome, State, apply
from headgate.model.operation import JobSelector, Operation
from headgate.model.operators import BULK_ACTIONS
from headgate.store import bulk
from headgate.store.store import Store
from tests.store.conftest import OpenStore
from tests.store.journeys import bring
from tests.store.rows import HOUR_MS, Observer, assert_lanes, deadlocks, start, state_of
from tests.store.test_control import EVENTS
from tests.store.test_operations import fill


async def run(store: Store, operation: Operation, *, batch: int = 100, passes: int = 200) -> int:
    """Runs pending operations until nothing moves; how many passes that took."""
    for count in range(passes):
        if not await store.operations.run_pending(batch):
            return count
    raise AssertionError("the operations never come to an end")


async def begin(store: Store, action: str, **selector: Any) -> Operation:
    return await store.operations.create(action, JobSelector(**selector))


async def now(store: Store, operation: Operation) -> Operation:
    found = await store.operations.get(operation.id)
    assert found is not None
    return found


async def states(observer: Observer, **where: str) -> dict[str, int]:
    rows = await observer.fetch("SELECT state, queue, partition_key FROM headgate_job")
    chosen = (row for row in rows if all(row[name] == value for name, value in where.items()))
    return dict(Counter(row["state"] for row in chosen))


@pytest.mark.parametrize("batch", [1, 3, 100])
@pytest.mark.parametrize("by", ["queue", "kind", "partition_key"])
@pytest.mark.parametrize("action", BULK_ACTIONS)
async def test_every_selected_job_and_no_other(
    store: Store, observer: Observer, action: OperatorAction, by: str, batch: int
) -> None:
    def envelope(value: str) -> Envelope:
        return msgspec.structs.replace(Envelope(kind="mail"), **{by: value})

    chosen = [(await bring(store, observer, envelope("a"), state), state) for state in State]
    others = [(await bring(store, observer, envelope("b"), state), state) for state in State]
    operation = await begin(store, action, **{by: "a"})
    later = [(await bring(store, observer, envelope("a"), state), state) for state in State]
    await run(store, operation, batch=batch)

    reached = {State.ARCHIVED} if action is OperatorAction.RETRY else OPERATOR_ACTIONS[action]
    for job_id, state in chosen:
        target = apply(state, EVENTS[action], Facts()) if state in reached else state
        assert await state_of(observer, job_id) == (None if target == "deleted" else target)
    for job_id, state in others + later:
        assert await state_of(observer, job_id) == state
    done = await now(store, operation)
    assert (done.status, done.affected, done.error) == ("completed", len(reached), None)
    await assert_lanes(observer)


async def test_a_state_alone_selects_everywhere(store: Store, observer: Observer) -> None:
    for queue in "abc":
        await fill(store, 4, queue=queue)
        await bring(store, observer, Envelope(kind="mail", queue=queue), State.SCHEDULED)
    operation = await begin(store, "cancel", state="available")
    await run(store, operation, batch=5)
    assert (await now(store, operation)).affected == 12
    assert await states(observer) == {"cancelled": 12, "scheduled": 3}


async def test_a_named_state_is_retried_though_it_is_not_archived(
    store: Store, observer: Observer
) -> None:
    for state in (State.ARCHIVED, State.CANCELLED, State.UNDECODABLE):
        await bring(store, observer, Envelope(kind="mail"), state)
    operation = await begin(store, "retry", queue="default", state="cancelled")
    await run(store, operation)
    assert await states(observer) == {"archived": 1, "available": 1, "undecodable": 1}


@pytest.mark.parametrize("state", ["bogus", "", "completed"])
async def test_a_selection_of_nothing_is_done(store: Store, state: str) -> None:
    await fill(store, 3)
    operation = await begin(store, "cancel", queue="default", state=state)
    assert operation.status == "pending"
    assert await store.operations.run_pending(100) == 1
    done = await now(store, operation)
    assert (done.status, done.affected) == ("completed", 0)


async def test_progress_can_be_watched(store: Store) -> None:
    await fill(store, 25)
    operation = await begin(store, "delete", queue="default")
    seen = []
    while (current := await now(store, operation)).status != "completed":
        seen.append((current.status, current.affected))
        await store.operations.run_pending(10)
    assert seen[:4] == [("pending", 0), ("running", 10), ("running", 20), ("running", 25)]


async def test_running_jobs_are_cancelled_with_their_lease(
    store: Store, observer: Observer
) -> None:
    ids = await fill(store, 3)
    leases = await start(observer, ids)
    await run(store, await begin(store, "cancel", queue="default"))
    assert await states(observer) == {"cancelled": 3}
    assert await store.leases.renew(leases, HOUR_MS) == ids


async def test_old_jobs_are_those_that_were_old_at_the_beginning(
    store: Store, observer: Observer
) -> None:
    await fill(store, 3, kind="old")
    await observer.execute("UPDATE headgate_job SET enqueued_at_ms = enqueued_at_ms - 120000")
    await fill(store, 3, kind="young")
    operation = await begin(store, "delete", older_than_ms=60_000)
    # By the time it runs the young ones are old too.
    await observer.execute(
        "UPDATE headgate_job SET enqueued_at_ms = enqueued_at_ms - 30000 WHERE kind = 'young'"
    )
    await run(store, operation)
    assert await states(observer) == {"available": 3}
    assert (await now(store, operation)).affected == 3


class TestWindows:
    """Conditions that no index knows are looked for window by window."""

    @pytest.fixture(autouse=True)
    def small_windows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bulk, "WINDOW", 7)

    async def test_the_search_goes_on_where_it_stopped(
        self, store: Store, observer: Observer
    ) -> None:
        for _ in range(10):
            await fill(store, 6, partition_key="common")
            await fill(store, 1, partition_key="rare")
        operation = await begin(store, "cancel", queue="default", partition_key="rare")
        # Ten windows, one more to see the end; and the same in the second round.
        assert 10 < await run(store, operation) <= 24
        assert (await now(store, operation)).affected == 10
        assert await states(observer, partition_key="rare") == {"cancelled": 10}

    async def test_an_empty_window_is_not_the_end(self, store: Store, observer: Observer) -> None:
        await fill(store, 40, partition_key="common")
        await fill(store, 1, partition_key="rare")
        operation = await begin(store, "delete", partition_key="rare")
        await run(store, operation)
        assert (await now(store, operation)).affected == 1

    async def test_more_matches_than_a_batch_takes(self, store: Store, observer: Observer) -> None:
        await fill(store, 40, partition_key="p")
        operation = await begin(store, "delete", partition_key="p", queue="default")
        await run(store, operation, batch=3)
        assert (await now(store, operation)).affected == 40

    async def test_newer_jobs_end_the_stream(self, store: Store, observer: Observer) -> None:
        await fill(store, 5, partition_key="p")
        operation = await begin(store, "delete", partition_key="p")
        await fill(store, 100, partition_key="p")
        assert await run(store, operation) <= 4
        assert await states(observer) == {"available": 100}


class TestClashes:
    """A retry whose unique key was taken."""

    async def test_bc_43_they_are_counted_and_stay_behind(
        self, store: Store, observer: Observer
    ) -> None:
        for number in range(10):
            envelope = Envelope(kind="mail", queue="q", unique_key=b"%d" % number)
            await bring(store, observer, envelope, State.ARCHIVED)
        await store.producer.enqueue(
            [Envelope(kind="mail", queue="other", unique_key=b"%d" % n) for n in (2, 7)]
        )
        operation = await begin(store, "retry", queue="q")
        await run(store, operation, batch=4)
        done = await now(store, operation)
        assert (done.status, done.affected, done.error) == ("completed", 8, None)
        assert await observer.fetchval("SELECT clashes FROM headgate_operation") == 2
        assert await states(observer, queue="q") == {"archived": 2, "available": 8}
        await assert_lanes(observer)

    async def test_of_equal_keys_the_oldest_job_wins(
        self, store: Store, observer: Observer
    ) -> None:
        ids = [
            await bring(store, observer, Envelope(kind="mail", unique_key=b"k"), State.ARCHIVED)
            for _ in range(3)
        ]
        operation = await begin(store, "retry", queue="default")
        await run(store, operation)
        assert (await now(store, operation)).affected == 1
        assert await state_of(observer, ids[0]) == "available"

    async def test_the_queues_are_woken(self, store: Store, observer: Observer) -> None:
        await bring(store, observer, Envelope(kind="mail", queue="q"), State.ARCHIVED)
        operation = await begin(store, "retry", queue="q")
        with store.listener.subscribe() as subscription:
            async with asyncio.timeout(10):
                while "" not in await subscription.wait(10_000):
                    pass
                await run(store, operation)
                assert await subscription.wait(10_000) == {"q"}


async def test_a_job_that_moves_back_is_caught_by_the_next_round(
    store: Store, observer: Observer
) -> None:
    scheduled = await fill(store, 3, delay_ms=HOUR_MS)
    [running] = await fill(store, 1)
    [lease] = await start(observer, [running])
    operation = await begin(store, "cancel", queue="default")
    # One batch ends within the scheduled jobs; then the last job snoozes, to a state that is
    # already done when the stream comes to it.
    await store.operations.run_pending(3)
    assert await states(observer) == {"cancelled": 3, "running": 1}
    await store.operations.run_pending(1)
    await store.leases.acknowledge(
        [Acknowledgement(lease=lease, outcome=Outcome.SNOOZE, delay_ms=HOUR_MS)]
    )
    await run(store, operation)
    assert await states(observer) == {"cancelled": 4}
    assert (await now(store, operation)).affected == 4
    assert scheduled


async def test_many_runners_do_every_job_once(open_store: OpenStore, observer: Observer) -> None:
    stores = [open_store(pool_size=2) for _ in range(4)]
    operations = []
    for number in range(8):
        await fill(stores[0], 60, queue=f"q{number}")
        operations.append(await begin(stores[0], "delete", queue=f"q{number}"))

    async def work(store: Store) -> None:
        while {(await now(store, operation)).status for operation in operations} != {"completed"}:
            await store.operations.run_pending(7)

    await asyncio.wait_for(asyncio.gather(*(work(store) for store in stores)), 60)
    done = [await now(stores[0], operation) for operation in operations]
    assert [operation.affected for operation in done] == [60] * 8
    assert await states(observer) == {}
    for store in stores:
        await store.close()
    assert await deadlocks(observer) == 0


async def test_everybody_gets_a_turn(store: Store, observer: Observer) -> None:
    """More operations than one pass serves, the oldest with much to do."""
    for number in range(12):
        await fill(store, 20, queue=f"q{number}")
    operations = [await begin(store, "delete", queue=f"q{number}") for number in range(12)]
    for _ in range(3):
        await store.operations.run_pending(1)
    # Fifteen turns for twelve.
    affected = [(await now(store, operation)).affected for operation in operations]
    assert affected == [2] * 3 + [1] * 9
