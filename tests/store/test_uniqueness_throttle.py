"""Throttle: only the clock frees the key, whatever becomes of the job."""

import asyncio

import pytest

from headgate.model.envelope import Envelope
from headgate.model.errors import DuplicateJob
from headgate.model.job import Acknowledgement, Enqueued
from headgate.model.lifecycle import LIVE, Outcome, State
from headgate.store.store import Store
from tests.store.journeys import LIVE_STATES, TERMINAL_STATES, bring
from tests.store.rows import HOUR_MS, Observer, job_row, start


def throttled(window_ms: int = HOUR_MS, *, retention_ms: int = 0) -> Envelope:
    return Envelope(
        kind="mail", unique_key=b"k", unique_window_ms=window_ms, retention_ms=retention_ms
    )


def lifecycle() -> Envelope:
    return Envelope(kind="mail", unique_key=b"k")


async def lapse(observer: Observer) -> None:
    """Lets the window of every throttle be over."""
    await observer.execute(
        "UPDATE headgate_job SET unique_expires_at_ms = 1 WHERE unique_expires_at_ms IS NOT NULL"
    )


@pytest.mark.parametrize("state", [*LIVE_STATES, *TERMINAL_STATES])
@pytest.mark.parametrize("mode", [throttled, lifecycle])
async def test_the_key_is_held_in_every_state(
    store: Store, observer: Observer, state: State, mode: type
) -> None:
    holder = await bring(store, observer, throttled(), state)
    with pytest.raises(DuplicateJob) as duplicate:
        await store.producer.enqueue([mode()])
    assert duplicate.value.existing_id == holder


@pytest.mark.parametrize("state", LIVE_STATES)
async def test_a_live_lifecycle_holder_keeps_a_throttle_out(
    store: Store, observer: Observer, state: State
) -> None:
    holder = await bring(store, observer, lifecycle(), state)
    with pytest.raises(DuplicateJob) as duplicate:
        await store.producer.enqueue([throttled()])
    assert duplicate.value.existing_id == holder


@pytest.mark.parametrize("state", [*LIVE_STATES, *TERMINAL_STATES])
@pytest.mark.parametrize("mode", [throttled, lifecycle])
async def test_the_end_of_the_window_takes_the_key_and_nothing_else(
    store: Store, observer: Observer, state: State, mode: type
) -> None:
    holder = await bring(store, observer, throttled(), state)
    await lapse(observer)
    before = await job_row(observer, holder)
    assert before is not None
    [job] = await store.producer.enqueue([mode()])
    changes = {"unique_key": None, "unique_expires_at_ms": None}
    assert await job_row(observer, holder) == before | changes
    with pytest.raises(DuplicateJob) as duplicate:
        await store.producer.enqueue([lifecycle()])
    assert duplicate.value.existing_id == job.id


async def test_a_real_window_ends_by_itself(store: Store) -> None:
    [first] = await store.producer.enqueue([throttled(200)])
    holders: list[str] = []

    async def next_one() -> Enqueued:
        while True:
            try:
                [job] = await store.producer.enqueue([throttled(HOUR_MS)])
            except DuplicateJob as duplicate:
                holders.append(duplicate.existing_id)
                await asyncio.sleep(0.01)
            else:
                return job

    second = await asyncio.wait_for(next_one(), 10)
    assert second.id != first.id
    assert set(holders) == {first.id}


@pytest.mark.parametrize("retention_ms", [0, 1, 2 * HOUR_MS])
async def test_a_completed_job_stays_at_least_until_the_window_ends(
    store: Store, observer: Observer, retention_ms: int
) -> None:
    [job] = await store.producer.enqueue([throttled(retention_ms=retention_ms)])
    [lease] = await start(observer, [job.id])
    [settled] = await store.leases.acknowledge(
        [Acknowledgement(lease=lease, outcome=Outcome.SUCCESS)]
    )
    assert settled.state == "completed"
    row = await job_row(observer, job.id)
    assert row is not None
    evicted_at_ms = row["finalized_at_ms"] + row["retention_ms"]
    wanted = max(row["unique_expires_at_ms"], row["finalized_at_ms"] + retention_ms)
    assert evicted_at_ms == wanted


async def test_a_success_after_the_window_deletes_as_ever(store: Store, observer: Observer) -> None:
    [job] = await store.producer.enqueue([throttled()])
    [lease] = await start(observer, [job.id])
    await lapse(observer)
    report = Acknowledgement(lease=lease, outcome=Outcome.SUCCESS)
    assert [found.state for found in await store.leases.acknowledge([report])] == ["deleted"]


@pytest.mark.parametrize("state", LIVE_STATES)
async def test_a_debounce_meets_a_throttle(store: Store, observer: Observer, state: State) -> None:
    holder = await bring(store, observer, throttled(), state)
    with pytest.raises(DuplicateJob) as duplicate:
        await store.producer.enqueue(
            [Envelope(kind="mail", unique_key=b"k", unique_debounce_ms=HOUR_MS, payload=b"new")]
        )
    assert duplicate.value.existing_id == holder
    assert duplicate.value.replaced == (state in LIVE - {State.RUNNING})
