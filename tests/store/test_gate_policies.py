"""Policies set through the store, as operators set them: they count at the next admission."""

from collections.abc import Awaitable, Callable

import pytest

from headgate.duties.lanes import LaneRepair
from headgate.model.policy import ConcurrencyLimit, RateClassPolicy
from headgate.store import gate as gate_module
from headgate.store.gate import Gate
from headgate.store.store import Store
from tests.store.backlog import admit, by, fill, finish, weigh
from tests.store.conftest import OpenStore
from tests.store.proxy import Pooler, listening, through
from tests.store.rows import HOUR_MS, Observer, assert_lanes
from tests.store.test_admission import explained

ROOM = 2


async def limit(store: Store, queue: str = "default", mode: str = "queue") -> None:
    terms = ConcurrencyLimit(name=queue, queue=queue, max_concurrent=ROOM, on_saturated=mode)
    await store.policies.put_concurrency_limit(terms)


async def pause(store: Store) -> None:
    await store.queues.pause("default")


async def resume(store: Store) -> None:
    await store.queues.resume("default")


async def lift(store: Store) -> None:
    await store.policies.delete_concurrency_limit("default")


async def classify(store: Store, tokens: int = ROOM) -> None:
    policy = RateClassPolicy(limit=tokens, window_ms=HOUR_MS)
    await store.policies.put_rate_class("api", policy)


async def declassify(store: Store) -> None:
    await store.policies.delete_rate_class("api")


Change = Callable[[Store], Awaitable[None]]

CHANGES: dict[str, tuple[Change, int, Change]] = {
    "pause": (pause, 0, resume),
    "ceiling": (limit, ROOM, lift),
    "class": (classify, ROOM, declassify),
}


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_counts_at_the_next_admission(
    store: Store, change: str, partitions: int
) -> None:
    """In the middle of work that goes the short ways, and with a gate that knows nothing yet."""
    restrict, allowed, lift_again = CHANGES[change]
    for number in range(partitions):
        await fill(store, 40, partition_key=f"p{number}", rate_class="api")
    gates = [store.gate, Gate(store.gate._database)]
    for _ in range(3):
        claims = await admit(store, partitions)
        assert len(claims) == partitions
        await finish(store, *claims)
    await restrict(store)
    shares = partitions if change == "ceiling" else 1
    started = [await gate.admit("worker", ["default"], 20, HOUR_MS) for gate in gates]
    assert [len(claims) for claims in started] == [allowed * shares, 0]
    await lift_again(store)
    for gate in gates:
        assert len(await gate.admit("worker", ["default"], 5, HOUR_MS)) == 5


async def test_an_unknown_class_is_unlimited_until_it_is_made(store: Store) -> None:
    await fill(store, 9, rate_class="api")
    [job] = (await admit(store, 1))[:1]
    assert job.rate_class == "api"
    await fill(store, 1, rate_class="api")
    page = await store.queues.blocked("default")
    assert page.reasons.rate_class == 0
    await classify(store, 1)
    assert len(await admit(store, 9)) == 1
    assert (await store.queues.blocked("default")).reasons.rate_class == 8


async def test_a_new_process_goes_on_in_the_race_of_queues(
    store: Store, observer: Observer
) -> None:
    for queue in ("a", "z"):
        await weigh(observer, queue, 1)
        await fill(store, 9, queue=queue)
    served = []
    for _ in range(6):
        gate = Gate(store.gate._database)
        served += await gate.admit("worker", ["a", "z"], 1, HOUR_MS)
        await gate.close()
    assert by("queue", served) == {"a": 3, "z": 3}


async def test_every_policy_works_behind_a_transaction_pooler(
    open_store: OpenStore,
    observer: Observer,
    headgate_database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Any transaction may get any of its two sessions."""
    monkeypatch.setattr(gate_module, "_UPKEEP_INTERVAL_S", 0.0)
    async with listening(Pooler(headgate_database, sessions=2)) as port:
        dsn = through(headgate_database, port)
        store = open_store(dsn=dsn, pooler=True, gate_pool_size=2)
        await _meet_every_policy(store, observer)
        await store.close()


async def _meet_every_policy(store: Store, observer: Observer) -> None:
    await fill(store, 4)
    assert len(await admit(store, 1)) == 1
    await fill(store, 9, partition_key="p")
    assert len(await admit(store, 2)) == 2
    assert len(await admit(store, 2)) == 2
    await fill(store, 5, queue="other", partition_key="p")
    assert len(await admit(store, 4, "default", "other")) == 4
    await classify(store)
    for mode in ("queue", "discard", "cancel_incoming", "cancel_running"):
        await limit(store, mode, mode)
        for weight in (9, 1):
            await fill(store, 2, queue=mode, rate_class="api", weight=weight)
        await fill(store, 3, queue=mode)
        await admit(store, 9, mode)
        await admit(store, 9, mode)
        running = "SELECT count(*) FROM headgate_job WHERE state = 'running' AND queue = $1"
        assert await observer.fetchval(running, mode) == ROOM
    waiting = "SELECT ulid FROM headgate_job WHERE queue = 'queue' AND state = 'available' LIMIT 1"
    assert not (await explained(store, await observer.fetchval(waiting))).admissible
    await observer.execute("UPDATE headgate_job SET scheduled_at_ms = 1")
    await observer.execute("UPDATE headgate_rate_bucket SET tokens = 0")
    await fill(store, 1, queue="heavy", rate_class="api", weight=2)
    await observer.execute("UPDATE headgate_job SET scheduled_at_ms = 1 WHERE queue = 'heavy'")
    await admit(store, 1, "heavy")
    reserved = "SELECT count(*) FROM headgate_rate_bucket WHERE reserved_job_id IS NOT NULL"
    assert await observer.fetchval(reserved) == 1
    async with observer.transaction():
        await observer.execute("DELETE FROM headgate_active_partition WHERE queue = 'queue'")
    duty = LaneRepair()
    while await duty.run_once(store) >= duty.batch:
        pass
    await assert_lanes(observer)
    assert (await store.recount.run()).queues == 0
