"""Duties have one holder each, and a worker finds the command that was left for it once."""

import asyncio

import msgspec
import pytest

from headgate.model.errors import InvalidRequest, NotFound
from headgate.model.job import WorkerBeat
from headgate.store.store import Store
from tests.store.rows import HOUR_MS, Observer, now_ms
from tests.store.waiting import until

BEAT = WorkerBeat(
    worker_id="worker",
    host="host",
    pid=42,
    queues=("a", "b"),
    concurrency=16,
    inflight=3,
    polls=128,
    empty_polls=7,
)


async def test_a_duty_has_one_holder(store: Store) -> None:
    results = await asyncio.gather(
        *(store.duties.claim("reclaimer", f"worker{n}", HOUR_MS) for n in range(8))
    )
    assert sum(results) == 1


async def test_its_holder_extends_the_lease(store: Store, observer: Observer) -> None:
    assert await store.duties.claim("reclaimer", "me", 1_000)
    before = await now_ms(observer)
    assert await store.duties.claim("reclaimer", "me", HOUR_MS)
    row = await observer.fetchrow("SELECT * FROM headgate_duty")
    assert row is not None
    assert (row["name"], row["holder"]) == ("reclaimer", "me")
    assert before + HOUR_MS <= row["expires_at_ms"] <= await now_ms(observer) + HOUR_MS


async def test_bc_39_a_lease_that_ran_out_is_anybodys(store: Store) -> None:
    assert await store.duties.claim("reclaimer", "me", 100)
    assert not await store.duties.claim("reclaimer", "you", 100)
    assert await until(lambda: store.duties.claim("reclaimer", "you", HOUR_MS))
    assert not await store.duties.claim("reclaimer", "me", HOUR_MS)


async def test_only_its_holder_lets_a_duty_go(store: Store) -> None:
    assert await store.duties.claim("reclaimer", "me", HOUR_MS)
    await store.duties.release("reclaimer", "you")
    await store.duties.release("promoter", "me")
    assert not await store.duties.claim("reclaimer", "you", HOUR_MS)
    await store.duties.release("reclaimer", "me")
    assert await store.duties.claim("reclaimer", "you", HOUR_MS)


async def test_duties_are_independent(store: Store) -> None:
    assert await store.duties.claim("reclaimer", "me", HOUR_MS)
    assert await store.duties.claim("promoter", "you", HOUR_MS)


@pytest.mark.parametrize("lease_ms", [0, -5])
async def test_the_lease_of_a_duty_has_a_length(store: Store, lease_ms: int) -> None:
    with pytest.raises(InvalidRequest, match="duty lease must be >= 1ms"):
        await store.duties.claim("reclaimer", "me", lease_ms)


async def test_a_beat_is_written_down(store: Store, observer: Observer) -> None:
    before = await now_ms(observer)
    assert await store.workers.heartbeat(BEAT) is None
    row = await observer.fetchrow("SELECT * FROM headgate_worker")
    assert row is not None
    assert before <= row["started_at_ms"] == row["heartbeat_at_ms"] <= await now_ms(observer)
    assert dict(row) == {
        "worker_id": "worker",
        "host": "host",
        "pid": 42,
        "queues": ["a", "b"],
        "concurrency": 16,
        "started_at_ms": row["started_at_ms"],
        "heartbeat_at_ms": row["heartbeat_at_ms"],
        "command": None,
        "inflight": 3,
        "polls": 128,
        "empty_polls": 7,
        "status": "running",
        "duties_active": True,
    }


async def test_a_later_beat_keeps_what_belongs_to_the_first(
    store: Store, observer: Observer
) -> None:
    await store.workers.heartbeat(BEAT)
    await observer.execute("UPDATE headgate_worker SET started_at_ms = 1, heartbeat_at_ms = 1")
    changed = {
        "queues": ["c"],
        "concurrency": 1,
        "inflight": 0,
        "polls": 1,
        "empty_polls": 0,
        "status": "quiet",
        "duties_active": False,
    }
    later = msgspec.structs.replace(BEAT, host="elsewhere", pid=1, **changed | {"queues": ("c",)})
    await store.workers.heartbeat(later)
    row = await observer.fetchrow("SELECT * FROM headgate_worker")
    assert row is not None
    assert (row["host"], row["pid"], row["started_at_ms"]) == ("host", 42, 1)
    assert row["heartbeat_at_ms"] > 1
    assert {name: row[name] for name in changed} == changed


@pytest.mark.parametrize("command", ["quiet", "resume", "restart", "terminate", "resign"])
async def test_a_command_is_handed_over_once(store: Store, command: str) -> None:
    await store.workers.heartbeat(BEAT)
    await store.workers.signal("worker", command)
    assert await store.workers.heartbeat(BEAT) == command
    assert await store.workers.heartbeat(BEAT) is None


async def test_of_two_processes_of_one_id_one_gets_it(store: Store) -> None:
    await store.workers.heartbeat(BEAT)
    await store.workers.signal("worker", "restart")
    answers = await asyncio.gather(*(store.workers.heartbeat(BEAT) for _ in range(6)))
    assert sorted(filter(None, answers)) == ["restart"]


async def test_a_command_can_be_taken_back_or_replaced(store: Store) -> None:
    await store.workers.heartbeat(BEAT)
    await store.workers.signal("worker", "quiet")
    await store.workers.signal("worker", None)
    assert await store.workers.heartbeat(BEAT) is None
    await store.workers.signal("worker", "quiet")
    await store.workers.signal("worker", "resume")
    assert await store.workers.heartbeat(BEAT) == "resume"


@pytest.mark.parametrize("command", ["", "stop", "QUIET", "quiet "])
async def test_an_unknown_command_is_refused(store: Store, command: str) -> None:
    await store.workers.heartbeat(BEAT)
    with pytest.raises(InvalidRequest, match="command must be quiet, resume, restart,"):
        await store.workers.signal("worker", command)
    assert await store.workers.heartbeat(BEAT) is None


async def test_nobody_of_that_name(store: Store) -> None:
    with pytest.raises(NotFound, match="not found: worker nobody"):
        await store.workers.signal("nobody", "quiet")
