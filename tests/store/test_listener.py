"""Wake-ups arrive where they are wanted, and after a gap everybody looks for himself."""

import asyncio
import time

import pytest

from headgate.model.envelope import Envelope
from headgate.model.lifecycle import State
from headgate.store.joining import enqueue_in
from headgate.store.listener import Subscription
from headgate.store.store import Store
from tests.store.conftest import OpenStore
from tests.store.journeys import FAR, bring
from tests.store.proxy import Wire, listening, through
from tests.store.rows import Observer
from tests.store.waiting import until

LONG_MS = 10_000
SHORT_MS = 100

_LISTENERS = "FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"


async def connected(subscription: Subscription) -> None:
    """Waits for the wake-up that a new connection gives to everybody."""
    assert await subscription.wait(LONG_MS) == {""}


async def woken(subscription: Subscription, *expected: str) -> None:
    """Waits until these queues were woken. Raises TimeoutError, or fails on another one."""
    seen: set[str] = set()
    async with asyncio.timeout(LONG_MS / 1000):
        while seen < set(expected):
            seen |= await subscription.wait(LONG_MS)
    assert seen == set(expected)


async def test_an_enqueue_wakes_whoever_waits_for_its_queue(
    store: Store, open_store: OpenStore
) -> None:
    other_process = open_store()
    with store.listener.subscribe(["mine", "ours"]) as mine, store.listener.subscribe() as every:
        await connected(mine)
        await connected(every)
        await other_process.producer.enqueue([Envelope(kind="mail", queue="others'")])
        await woken(every, "others'")
        await other_process.producer.enqueue([Envelope(kind="mail", queue="mine")])
        await woken(every, "mine")
        await woken(mine, "mine")
        assert await mine.wait(SHORT_MS) == set()


async def test_what_was_missed_between_two_looks_is_kept(store: Store) -> None:
    with store.listener.subscribe(["a", "b"]) as subscription:
        await connected(subscription)
        # At once, so that no queue is named again later.
        batch = [Envelope(kind="mail", queue=queue) for queue in ("a", "b", "a")]
        await store.producer.enqueue(batch)
        await woken(subscription, "a", "b")
        assert await subscription.wait(SHORT_MS) == set()


async def test_only_what_may_start_now_wakes(store: Store, observer: Observer) -> None:
    with store.listener.subscribe() as subscription:
        await connected(subscription)
        await store.producer.enqueue([Envelope(kind="mail", queue="p", pending=True)])
        await store.producer.enqueue([Envelope(kind="mail", queue="s", scheduled_at_ms=FAR)])
        await observer.execute("INSERT INTO headgate_enqueue_policy VALUES ('l', 10)")
        await store.producer.enqueue([Envelope(kind="mail", queue="l", scheduled_at_ms=FAR)])
        await store.producer.enqueue([Envelope(kind="mail", queue="l", id="one")])
        await woken(subscription, "l")
        # A repetition is no news.
        await store.producer.enqueue([Envelope(kind="mail", queue="l", id="one")])
        assert await subscription.wait(SHORT_MS) == set()


async def test_an_application_wakes_with_its_commit(store: Store, observer: Observer) -> None:
    with store.listener.subscribe() as subscription:
        await connected(subscription)
        async with observer.transaction():
            await enqueue_in(observer, [Envelope(kind="mail", queue="a")])
            assert await subscription.wait(SHORT_MS) == set()
        await woken(subscription, "a")


async def test_a_subscription_ends_with_its_block(store: Store) -> None:
    with store.listener.subscribe() as subscription:
        await connected(subscription)
    await store.producer.enqueue([Envelope(kind="mail")])
    assert await subscription.wait(SHORT_MS) == set()


async def test_any_number_of_waiters_share_one_connection(store: Store, observer: Observer) -> None:
    subscriptions = [store.listener.subscribe() for _ in range(20)]
    for subscription in subscriptions:
        subscription.__enter__()
    for subscription in subscriptions:
        await connected(subscription)
    assert await observer.fetchval("SELECT count(*) " + _LISTENERS) == 1
    await store.producer.enqueue([Envelope(kind="mail")])
    for subscription in subscriptions:
        await woken(subscription, "default")
        subscription.__exit__()


async def test_nobody_waits_no_connection(store: Store, observer: Observer) -> None:
    await store.producer.enqueue([Envelope(kind="mail")])
    assert await observer.fetchval("SELECT count(*) " + _LISTENERS) == 0


async def test_a_new_connection_wakes_everybody(store: Store, observer: Observer) -> None:
    with store.listener.subscribe(["q"]) as subscription:
        await connected(subscription)
        for _ in range(3):
            assert await observer.fetchval("SELECT pg_terminate_backend(pid) " + _LISTENERS)
            await connected(subscription)
        await store.producer.enqueue([Envelope(kind="mail", queue="q")])
        await woken(subscription, "q")


async def test_a_server_that_comes_late_is_found(
    open_store: OpenStore, headgate_database: str
) -> None:
    wire = Wire(headgate_database)
    wire.alive.clear()
    async with listening(wire) as port:
        store = open_store(dsn=through(headgate_database, port), connect_timeout_ms=100)
        with store.listener.subscribe() as subscription:
            assert await subscription.wait(300) == set()
            wire.alive.set()
            await connected(subscription)


async def test_a_silent_connection_is_replaced(
    open_store: OpenStore, headgate_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.store.listener._PROBE_SECONDS", 0.2)
    wire = Wire(headgate_database)

    async def reconnecting() -> bool:
        return wire.connections > 1

    async with listening(wire) as port:
        store = open_store(dsn=through(headgate_database, port), connect_timeout_ms=300)
        with store.listener.subscribe() as subscription:
            await connected(subscription)
            wire.alive.clear()
            await until(reconnecting)
            wire.alive.set()
            await connected(subscription)


async def test_waiting_takes_no_longer_than_asked(store: Store) -> None:
    with store.listener.subscribe() as subscription:
        await connected(subscription)
        started = time.monotonic()
        assert await subscription.wait(SHORT_MS) == set()
        assert 0.05 < time.monotonic() - started < 2


async def test_by_choice_waiting_is_sleeping(open_store: OpenStore, observer: Observer) -> None:
    store = open_store(notify=False)
    with store.listener.subscribe() as subscription:
        await bring(store, observer, Envelope(kind="mail"), State.AVAILABLE)
        assert await subscription.wait(SHORT_MS) == set()
    assert await observer.fetchval("SELECT count(*) " + _LISTENERS) == 0


async def test_closing_ends_the_connection(store: Store, observer: Observer) -> None:
    with store.listener.subscribe() as subscription:
        await connected(subscription)
        await store.listener.close()
        await until(lambda: observer.fetchval("SELECT count(*) = 0 " + _LISTENERS))
        assert await subscription.wait(SHORT_MS) == set()


async def test_who_gives_a_function_need_not_wait(store: Store) -> None:
    heard = asyncio.Queue[None]()
    calling = store.listener.subscribe(["mine"], lambda: heard.put_nowait(None))
    with calling, store.listener.subscribe() as every:
        await connected(every)
        await heard.get()
        await store.producer.enqueue([Envelope(kind="mail", queue="others'")])
        await woken(every, "others'")
        assert heard.empty()
        await store.producer.enqueue([Envelope(kind="mail", queue="mine")])
        async with asyncio.timeout(LONG_MS / 1000):
            await heard.get()
    assert heard.empty()
