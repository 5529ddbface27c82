"""The gate: what a claim is, who may have it, and what a call may ask for."""

from typing import Any

import pytest

from headgate.model.envelope import Envelope
from headgate.model.errors import InvalidRequest, StoreUnavailable
from headgate.model.job import Claim
from headgate.queries.gate.fast import fast
from headgate.queries.gate.full import full
from headgate.queries.gate.survey import occupied
from headgate.queries.gate.walk import ANY_PRIORITY
from headgate.store.admissions import Call
from headgate.store.rotation import Rotation
from headgate.store.store import Store
from tests.store.backlog import LEASE_MS, admit, bucket, by, ceiling, fill, pause, quarantine
from tests.store.conftest import OpenStore
from tests.store.rows import Observer, count_jobs, job_row, lanes, now_ms


async def test_a_claim_carries_all_that_was_enqueued(store: Store, observer: Observer) -> None:
    envelope = Envelope(
        kind="mail",
        schema_version=7,
        payload=b"\x00\xff",
        queue="q",
        partition_key="p",
        rate_class="unlimited",
        weight=3,
        priority=-2,
        max_attempts=9,
        timeout_ms=1,
        deadline_ms=4_000_000_000_000,
        retention_ms=3,
        headers={"trace": "é"},
        sticky_worker="worker",
        periodic_schedule_id="s",
        periodic_tick_ms=4,
    )
    enqueued = await store.producer.enqueue([envelope])
    before = await now_ms(observer)
    [claim] = await admit(store, 5, "q", lease_ms=1234)
    after = await now_ms(observer)
    assert before <= claim.claimed_at_ms <= after
    assert claim.lease_expires_at_ms == claim.claimed_at_ms + 1234
    row = await job_row(observer, enqueued[0].id)
    assert row is not None
    assert claim == Claim(
        job_id=enqueued[0].id,
        lease_id=row["lease_id"],
        fence=1,
        lease_expires_at_ms=row["lease_expires_at_ms"],
        claimed_at_ms=row["claimed_at_ms"],
        kind="mail",
        schema_version=7,
        payload=b"\x00\xff",
        queue="q",
        partition_key="p",
        rate_class="unlimited",
        weight=3,
        fingerprint=row["fingerprint"],
        priority=-2,
        attempt=0,
        crash_attempt=0,
        max_attempts=9,
        enqueued_at_ms=row["enqueued_at_ms"],
        scheduled_at_ms=row["scheduled_at_ms"],
        timeout_ms=1,
        deadline_ms=4_000_000_000_000,
        retention_ms=3,
        headers={"trace": "é"},
        checkpoint={},
        checkpoint_cursor=None,
        periodic_schedule_id="s",
        periodic_tick_ms=4,
        sticky_worker="worker",
    )
    assert (row["state"], row["claimed_by"], row["rate_charge"]) == ("running", "worker", 0)


async def test_a_checkpoint_comes_along(store: Store, observer: Observer) -> None:
    await fill(store, 1)
    await observer.execute(
        """UPDATE headgate_job SET checkpoint = '{"step": [1]}', cp_cursor = '\\x01', fence = 6"""
    )
    [claim] = await admit(store, 1)
    assert claim.checkpoint == {"step": [1]}
    assert claim.checkpoint_cursor == b"\x01"
    assert claim.fence == 7


async def test_each_call_has_a_lease_of_its_own(store: Store) -> None:
    # Enough tenants and too little for the capacity, so that one call takes several statements.
    for key in "abc":
        await fill(store, 4, partition_key=key)
    first = await admit(store, 3)
    second = await admit(store, 20)
    assert (len(first), len(second)) == (3, 9)
    assert len(by("lease_id", first)) == len(by("lease_id", second)) == 1
    assert first[0].lease_id != second[0].lease_id


async def test_the_oldest_of_a_lane_comes_first(store: Store, observer: Observer) -> None:
    await fill(store, 6)
    await observer.execute("UPDATE headgate_job SET scheduled_at_ms = 100 - id % 3")
    claims = await admit(store, 3) + await admit(store, 3)
    assert [claim.scheduled_at_ms for claim in claims] == sorted(
        claim.scheduled_at_ms for claim in claims
    )


async def test_nothing_is_started_twice_and_nothing_out_of_nothing(store: Store) -> None:
    assert await admit(store, 5) == []
    await fill(store, 2)
    assert len(await admit(store, 5)) == 2
    assert await admit(store, 5) == []
    await fill(store, 1)
    assert len(await admit(store, 5)) == 1
    assert await admit(store, 5, "other") == []


async def test_a_paused_queue_waits(store: Store, observer: Observer) -> None:
    await fill(store, 3)
    await fill(store, 3, partition_key="p")
    await pause(observer, "default")
    assert await admit(store, 5) == []
    await pause(observer, "default", paused=False)
    assert len(await admit(store, 5)) == 5
    await pause(observer, "default")
    assert await admit(store, 5) == []


async def test_a_pause_also_stops_the_only_lane(store: Store, observer: Observer) -> None:
    await fill(store, 3)
    assert len(await admit(store, 1)) == 1
    await pause(observer, "default")
    assert await admit(store, 1) == []
    await pause(observer, "default", paused=False)
    assert len(await admit(store, 1)) == 1


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("policy", ["ceiling", "class"])
async def test_a_policy_counts_from_the_next_call_on(
    store: Store, observer: Observer, policy: str, partitions: int
) -> None:
    for number in range(partitions):
        await fill(store, 20, partition_key=f"t{number}", rate_class="api")
    for _ in range(4):
        assert len(await admit(store, 3)) == 3
    if policy == "ceiling":
        await ceiling(observer, "default", 1)
    else:
        await bucket(observer, "api", 1, window_ms=3_600_000, tokens=0)
    assert await admit(store, 3) == []


async def test_foreign_pins_hide_nothing(store: Store, observer: Observer) -> None:
    await fill(store, 5_000, sticky_worker="b", priority=10_000)
    await fill(store, 1, sticky_worker="a")
    await fill(store, 1)
    assert by("sticky_worker", await admit(store, 2, worker="a")) == {"a": 1, "": 1}
    assert await admit(store, 5, worker="c") == []
    assert by("sticky_worker", await admit(store, 5, worker="b")) == {"b": 5}


async def test_pins_and_the_rest_of_a_partition_share_its_turn(store: Store) -> None:
    await fill(store, 10, sticky_worker="worker", partition_key="p")
    await fill(store, 10, partition_key="p")
    await fill(store, 10, partition_key="q")
    claims = [claim for _ in range(4) for claim in await admit(store, 4)]
    assert by("partition_key", claims) == {"p": 8, "q": 8}


async def test_quarantined_jobs_hide_nothing(store: Store, observer: Observer) -> None:
    await fill(store, 6_000, fingerprint="bad")
    await fill(store, 5, fingerprint="good")
    await quarantine(observer, "bad")
    assert by("fingerprint", await admit(store, 10)) == {"good": 5}
    assert await observer.fetchval("SELECT count(*) FROM headgate_job WHERE state = 'available'")


async def test_partitions_of_quarantined_jobs_hide_nothing(
    store: Store, observer: Observer
) -> None:
    for number in range(60):
        await fill(store, 1, fingerprint="bad", partition_key=f"p{number:02}")
    await fill(store, 1, fingerprint="good", partition_key="p59")
    await quarantine(observer, "bad")
    calls = 0
    while not (claims := await admit(store, 1)):
        calls += 1
        assert calls < 12
    assert by("fingerprint", claims) == {"good": 1}


@pytest.mark.parametrize("statement", ["fast", "full"])
async def test_only_what_is_started_is_locked(
    store: Store, observer: Observer, statement: str
) -> None:
    for key in ("bad", "p", "q"):
        await fill(store, 5, fingerprint=key, partition_key=key)
    await quarantine(observer, "bad")
    if statement == "full":
        await bucket(observer, "empty", 1, tokens=0)
        await fill(store, 5, rate_class="empty")
        await ceiling(observer, "other", 1)
        await fill(store, 5, queue="other")
        claiming = full(with_ceilings=True, with_buckets=True)
    else:
        claiming = fast()
    queues = ["default", "other"]
    parameters = Call("worker", queues, 4, LEASE_MS).parameters(
        **Rotation().parameters(queues), below_priorities=[ANY_PRIORITY] * 2
    )
    everything = await count_jobs(observer)
    async with store.gate._database.transaction() as session:
        started = [row for row in await session.fetch(claiming, parameters) if row["ulid"]]
        free = await observer.fetch("SELECT FROM headgate_job FOR UPDATE SKIP LOCKED")
    assert started
    assert len(free) == everything - len(started)


async def test_drained_lanes_leave_the_registry(store: Store, observer: Observer) -> None:
    for key in "abc":
        await fill(store, 1, partition_key=key)
    while await lanes(observer):
        await admit(store, 10)
        await observer.execute("SELECT pg_sleep(0.1)")


async def test_behind_a_pooler_nothing_is_different(
    open_store: OpenStore, observer: Observer
) -> None:
    store = open_store(pooler=True)
    for key in "abc":
        await fill(store, 9, partition_key=key)
    assert by("partition_key", await admit(store, 9)) == {"a": 3, "b": 3, "c": 3}
    assert by("partition_key", await admit(store, 9)) == {"a": 3, "b": 3, "c": 3}
    await ceiling(observer, "default", 7)
    await observer.execute("DELETE FROM headgate_inflight")
    assert len(await admit(store, 9)) == 3


async def test_what_has_started_is_not_lost_for_a_later_failure(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(store, 20, partition_key="many")
    await fill(store, 2, partition_key="one")
    assert len(await admit(store, 1)) == 1

    async def fails(*_: object, **__: object) -> None:
        raise StoreUnavailable("gone")

    monkeypatch.setattr(store.gate, "_full", fails)
    assert by("partition_key", await admit(store, 6))["many"] == 3
    with pytest.raises(StoreUnavailable):
        await admit(store, 6)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("", ["q"], 1, 1), "worker must not be empty"),
        (("a\0b", ["q"], 1, 1), "worker must not contain NUL"),
        (("w", [], 1, 1), "queues must not be empty"),
        (("w", ["q", "\0"], 1, 1), "queue must not contain NUL"),
        (("w", ["q"], 0, 1), "capacity must be between 1 and 10000"),
        (("w", ["q"], 10_001, 1), "capacity must be between 1 and 10000"),
        (("w", ["q"], 1, 0), "lease must be >= 1ms"),
    ],
)
async def test_impossible_calls_are_refused(
    store: Store, arguments: tuple[str, list[str], int, int], text: str
) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        await store.gate.admit(*arguments)
    assert refusal.value.message == text


async def test_what_comes_in_the_moment_of_a_look_needs_no_complete_gate(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.producer.enqueue([Envelope(kind="mail", queue="q")])
    assert len(await admit(store, 5, "q")) == 1
    fetch = store.gate._database.fetch

    async def late(statement: Any, parameters: Any = None) -> Any:
        if statement is occupied():
            await store.producer.enqueue([Envelope(kind="mail", queue="q")])
        return await fetch(statement, parameters)

    async def never(*arguments: Any, **settings: Any) -> None:
        raise AssertionError("the complete gate was asked")

    monkeypatch.setattr(store.gate._database, "fetch", late)
    monkeypatch.setattr(store.gate, "_full", never)
    assert len(await admit(store, 5, "q")) == 1
