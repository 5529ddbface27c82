"""The stream of events: what is told to whom, and that nobody can hold it up."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, Final

import pytest
from sqlalchemy import text

from headgate.api.application import create_app, end_streams
from headgate.api.broadcast import MAX_NAMES, WINDOW_MS, Broadcaster, Follower
from headgate.api.config import ApiConfig
from headgate.model.errors import InvalidRequest
from headgate.store.settings import StoreSettings
from headgate.store.store import Store
from tests.contract.client import Client, Exchange
from tests.contract.jobs import enqueue
from tests.contract.wire import Wire
from tests.worker.waiting import eventually

LISTENING: Final = text(
    "SELECT count(*) AS n FROM pg_stat_activity"
    " WHERE datname = current_database() AND query LIKE 'LISTEN%'"
)
EVENT: Final = "event: queue_activity\ndata: "


def events(body: str) -> list[list[str]]:
    return [
        json.loads(frame.removeprefix(EVENT))["queues"]
        for frame in body.split("\n\n")
        if frame.startswith(EVENT)
    ]


def named(*queues: str) -> Any:
    """Whether all of these queues were told of so far."""
    return lambda body: set(queues) <= {name for names in events(body) for name in names}


@pytest.fixture(autouse=True)
async def limit() -> AsyncIterator[None]:
    async with asyncio.timeout(30):
        yield


async def test_what_it_looks_like(client: Client) -> None:
    async with client.stream("/events") as stream:
        answer = stream.answer()
        assert answer.status == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-cache"
        assert "content-length" not in answer.headers
        assert answer.body == b""
        await enqueue(client, "x", queue="mail")
        await stream.until(named("mail"))
    assert stream.answer().body == b'event: queue_activity\ndata: {"queues":["mail"]}\n\n'


async def test_what_happens_together_comes_together_sorted(client: Client) -> None:
    async with client.stream("/events") as stream:
        for number, queue in enumerate(("b", "a", "c", "a")):
            await enqueue(client, f"job-{number}", queue=queue)
        await stream.until(named("a", "b", "c"))
        assert events(stream.answer().body.decode()) == [["a", "b", "c"]]


async def test_everybody_hears_it_over_one_connection(client: Client, store: Store) -> None:
    async with AsyncExitStack() as streams:
        following = [await streams.enter_async_context(client.stream("/events")) for _ in range(20)]
        assert client.app.state.broadcaster.followers == 20  # type: ignore[attr-defined] # Starlette's
        await enqueue(client, "x", queue="mail")
        for stream in following:
            await stream.until(named("mail"))
        rows = await store.database.fetch(LISTENING)
        assert [row["n"] for row in rows] == [1]
    assert client.app.state.broadcaster.followers == 0  # type: ignore[attr-defined] # Starlette's


async def test_one_who_comes_again_hears_what_happens_then(client: Client) -> None:
    for queue in ("first", "second"):
        async with client.stream("/events") as stream:
            await enqueue(client, queue, queue=queue)
            await stream.until(named(queue))
            assert events(stream.answer().body.decode()) == [[queue]]


async def test_silence_is_broken_by_a_comment(store: Store) -> None:
    client = Client(create_app(store, ApiConfig(event_heartbeat_ms=20)))
    async with client.stream("/events") as stream:
        await stream.until(lambda body: body.startswith(": hb\n\n: hb\n\n"))


async def test_without_a_listener_there_are_only_comments(headgate_database: str) -> None:
    for settings in (
        StoreSettings(dsn=headgate_database, notify=False),
        StoreSettings(dsn=headgate_database, pooler=True),
    ):
        async with Store(settings) as store:
            client = Client(create_app(store, ApiConfig(event_heartbeat_ms=100)))
            assert "notifying" not in (await client.get("/meta")).json()["capabilities"]
            async with client.stream("/events") as stream:
                await enqueue(client, f"x-{settings.pooler}", queue="mail")
                await stream.until(lambda body: body.count(": hb") >= 5)
                assert events(stream.answer().body.decode()) == []


async def test_it_begins_without_the_database_and_tells_of_the_gap(headgate_database: str) -> None:
    wire = Wire(headgate_database)
    await wire.open()
    async with Store(StoreSettings(dsn=wire.dsn)) as store:
        client = Client(create_app(store, ApiConfig(event_heartbeat_ms=100)))
        async with client.stream("/events") as stream:
            assert stream.answer().status == 200
            await wire.mend()
            await stream.until(lambda body: [] in events(body))
            await enqueue(client, "x", queue="mail")
            await stream.until(named("mail"))
    await wire.cut()


async def test_read_only_may_follow(read_only: Client) -> None:
    async with read_only.stream("/events") as stream:
        assert stream.answer().status == 200


async def test_only_so_many_at_a_time(store: Store) -> None:
    client = Client(create_app(store, ApiConfig(max_event_streams=2)))
    async with client.stream("/events"), client.stream("/events"):
        answer = await client.get("/events")
        assert (answer.status, answer.json()) == (503, {"error": "too many event streams"})
        assert (await client.request("HEAD", "/events")).status == 200
    async with client.stream("/events") as stream:
        assert stream.answer().status == 200


async def test_the_end_of_the_server_ends_every_stream(client: Client) -> None:
    async with client.stream("/events") as first, client.stream("/events") as second:
        end_streams(client.app)  # type: ignore[arg-type] # it is Starlette's
        for stream in (first, second):
            await eventually_complete(stream)
    # One that comes too late is over at once.
    exchange_over = await client.get("/events")
    assert (exchange_over.status, exchange_over.body) == (200, b"")


async def eventually_complete(stream: Exchange) -> None:
    async def complete() -> bool:
        return stream.complete

    await eventually(complete)


async def test_a_client_that_takes_nothing_keeps_nobody_waiting(client: Client) -> None:
    async with client.stream("/events") as slow, client.stream("/events") as quick:
        slow.stall()
        for number in range(5):
            await enqueue(client, f"x-{number}", queue=f"q-{number}")
            await quick.until(named(f"q-{number}"))
        slow.resume()
        await slow.until(named(*(f"q-{number}" for number in range(5))))
        # What came while it did not take anything is one event.
        assert len(events(slow.answer().body.decode())) <= 3


# The parts


async def test_names_that_are_not_fetched_add_up_to_a_bound() -> None:
    follower = Follower()
    follower.tell({"b", "a"}, gap=False)
    follower.tell({"c"}, gap=False)
    assert await follower.next(1000) == ["a", "b", "c"]
    assert await follower.next(1) is None
    follower.tell({str(number) for number in range(MAX_NAMES)}, gap=False)
    follower.tell({"one more"}, gap=False)
    assert await follower.next(1000) == []
    follower.tell({"a"}, gap=True)
    assert await follower.next(1000) == []
    follower.tell({"a"}, gap=False)
    assert await follower.next(1000) == ["a"]
    follower.close()
    for _ in range(2):
        with pytest.raises(EOFError):
            await follower.next(1000)


async def test_the_window_is_not_extended_by_what_comes_into_it(store: Store) -> None:
    broadcaster = Broadcaster(store.listener, 1)
    loop = asyncio.get_running_loop()
    with broadcaster.follow() as follower:
        await broadcaster.ready()
        begun = loop.time()
        wake = asyncio.create_task(keep_waking(store))
        assert await follower.next(10_000) == ["busy"]
        wake.cancel()
    assert WINDOW_MS / 1000 <= loop.time() - begun < 5


async def keep_waking(store: Store) -> None:
    while True:
        store.notifier.wake(["busy"])
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("name", ["max_event_streams", "event_heartbeat_ms"])
def test_a_bound_of_nothing_is_refused(name: str) -> None:
    options: dict[str, Any] = {name: 0}
    with pytest.raises(InvalidRequest, match=f"{name} must be >= 1"):
        ApiConfig(**options)
