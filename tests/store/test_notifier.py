"""Notifications: after the commit, few of them, and none that anybody depends on."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from headgate.model.envelope import Envelope
from headgate.queries.wakeups import wakeup_channel
from headgate.store import notifier
from headgate.store.store import Store
from tests.store.conftest import OpenStore
from tests.store.rows import Observer
from tests.store.waiting import until


class Received:
    """The notifications of the test's database, as a stranger hears them."""

    def __init__(self) -> None:
        self.queues: list[str] = []

    def __call__(self, _connection: Any, _pid: int, _channel: str, payload: Any) -> None:
        self.queues.append(str(payload))

    async def at_least(self, count: int) -> bool:
        return len(self.queues) >= count


@pytest.fixture
async def received(observer: Observer) -> AsyncIterator[Received]:
    heard = Received()
    await observer.add_listener(wakeup_channel("public"), heard)
    yield heard
    await observer.remove_listener(wakeup_channel("public"), heard)


async def test_each_queue_once_for_a_batch(store: Store, received: Received) -> None:
    await store.producer.enqueue(
        [Envelope(kind="mail", queue=f"q{number % 3}") for number in range(300)]
    )
    await until(lambda: received.at_least(3))
    await store.close()
    assert sorted(received.queues) == ["q0", "q1", "q2"]


async def test_bc_75_a_burst_is_few_notifications(store: Store, received: Received) -> None:
    started = time.monotonic()
    for _ in range(20):
        await asyncio.gather(*(store.producer.enqueue([Envelope(kind="mail")]) for _ in range(50)))
    took_ms = (time.monotonic() - started) * 1_000
    await until(lambda: received.at_least(1))
    await store.close()
    # One per interval at most, and one for what came last.
    assert 1 <= len(received.queues) <= took_ms / 5 + 2
    assert len(received.queues) < 500


async def test_a_queue_with_batch_after_batch_is_named_less_often(
    store: Store, received: Received
) -> None:
    started = time.monotonic()
    for _ in range(30):
        await store.producer.enqueue([Envelope(kind="mail")] * 100)
    took_ms = (time.monotonic() - started) * 1_000
    await store.close()
    await until(lambda: received.at_least(1))
    assert len(received.queues) <= took_ms / 25 + 2


async def test_a_busy_queue_holds_up_no_other(
    store: Store, received: Received, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier, "_LONGEST_SECONDS", 60.0)
    store.notifier.wake(["busy"], jobs=1_000_000)
    await until(lambda: received.at_least(1))
    store.notifier.wake(["busy"])
    store.notifier.wake(["other"])
    await until(lambda: received.at_least(2))
    assert received.queues == ["busy", "other"]
    store.notifier._busy_until.clear()
    await store.close()
    await until(lambda: received.at_least(3))
    assert received.queues == ["busy", "other", "busy"]


async def test_the_last_one_is_sent_before_the_end(
    store: Store, observer: Observer, received: Received
) -> None:
    store.notifier.wake(["first"])
    await until(lambda: received.at_least(1))
    store.notifier.wake(["second"])
    store.notifier.wake(["third"])
    await store.close()
    await observer.execute("SELECT 1")
    assert received.queues == ["first", "second", "third"]


async def test_waking_waits_for_nothing(open_store: OpenStore) -> None:
    away = open_store(dsn="postgresql://nobody@127.0.0.1:1/nothing")
    started = time.monotonic()
    for _ in range(1_000):
        away.notifier.wake(["q"])
    assert time.monotonic() - started < 1
    await away.close()


async def test_a_notifier_outlives_its_session(
    store: Store, observer: Observer, received: Received
) -> None:
    store.notifier.wake(["first"])
    await until(lambda: received.at_least(1))
    await observer.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = 'headgate'"
    )

    async def woken_again() -> bool:
        store.notifier.wake(["second"])
        return "second" in received.queues

    await until(woken_again)


@pytest.mark.parametrize("settings", [{"notify": False}, {"pooler": True}])
async def test_silence_by_choice(
    open_store: OpenStore, observer: Observer, received: Received, settings: dict[str, bool]
) -> None:
    store = open_store(**settings)
    await store.producer.enqueue([Envelope(kind="mail")])
    store.notifier.wake(["q"])
    await store.close()
    await observer.execute("SELECT 1")
    assert received.queues == []


def test_each_schema_has_its_channel() -> None:
    channels = [wakeup_channel(schema) for schema in ("public", "billing jobs", "x" * 63)]
    assert channels[0] == "headgate_wakeup"
    assert channels[1] == "headgate_wakeup_f3cdd1e7bd741f2d"
    assert len(set(channels)) == 3
    assert all(len(channel) <= 63 for channel in channels)
