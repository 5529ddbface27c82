"""Debounce: every duplicate puts the holder off again and hands it the latest content."""

import pytest

from headgate.model.envelope import Envelope
from headgate.model.errors import DuplicateJob
from headgate.model.identity import fingerprint
from headgate.model.lifecycle import DELETED, Destination, State
from headgate.store.store import Store
from tests.store.journeys import LIVE_STATES, TERMINAL_STATES, bring
from tests.store.rows import HOUR_MS, Observer, assert_lanes, job_row, now_ms, tags_of


def latest(*, mask: int = 0) -> Envelope:
    return Envelope(
        kind="mail",
        unique_key=b"k",
        unique_debounce_ms=HOUR_MS,
        unique_replace=mask,
        payload=b"latest",
        schema_version=2,
        priority=6,
        max_attempts=3,
        tags=("kept", "new"),
    )


@pytest.mark.parametrize("state", LIVE_STATES)
async def test_the_holder_by_its_state(store: Store, observer: Observer, state: State) -> None:
    first = Envelope(kind="mail", unique_key=b"k", tags=("kept", "old"))
    holder = await bring(store, observer, first, state)
    before = await job_row(observer, holder)
    assert before is not None
    started = await now_ms(observer)
    with pytest.raises(DuplicateJob) as duplicate:
        await store.producer.enqueue([latest()])
    row = await job_row(observer, holder)
    assert row is not None
    untouched = state is State.RUNNING
    assert (duplicate.value.existing_id, duplicate.value.replaced) == (holder, not untouched)
    if untouched:
        assert row == before
        assert await tags_of(observer, holder) == ["kept", "old"]
        return
    changes = {
        "payload": b"latest",
        "schema_version": 2,
        "fingerprint": fingerprint("mail", b"latest"),
    }
    if state is not State.PENDING:
        changes |= {"state": "scheduled", "scheduled_at_ms": row["scheduled_at_ms"]}
        ended = await now_ms(observer)
        assert started + HOUR_MS <= row["scheduled_at_ms"] <= ended + HOUR_MS
    assert row == before | changes
    assert await tags_of(observer, holder) == ["kept", "new"]
    await assert_lanes(observer)


@pytest.mark.parametrize("end", [*TERMINAL_STATES, DELETED])
async def test_after_the_end_of_its_holder_a_new_job_waits(
    store: Store, observer: Observer, end: Destination
) -> None:
    first = Envelope(kind="mail", unique_key=b"k")
    holder = await bring(store, observer, first, end)
    [job] = await store.producer.enqueue([latest()])
    assert job.id != holder
    row = await job_row(observer, job.id)
    assert row is not None
    assert (row["state"], row["scheduled_at_ms"]) == ("scheduled", row["enqueued_at_ms"] + HOUR_MS)


async def test_the_mask_adds_to_a_debounce(store: Store, observer: Observer) -> None:
    holder = await bring(store, observer, Envelope(kind="mail", unique_key=b"k"), State.AVAILABLE)
    with pytest.raises(DuplicateJob):
        await store.producer.enqueue([latest(mask=2 | 4 | 8)])
    row = await job_row(observer, holder)
    assert row is not None
    assert (row["state"], row["priority"], row["max_attempts"]) == ("scheduled", 6, 3)


async def test_tags_can_go_altogether(store: Store, observer: Observer) -> None:
    with_tags = latest()
    [job] = await store.producer.enqueue([with_tags])
    without_tags = latest()
    without_tags.tags = ()
    with pytest.raises(DuplicateJob):
        await store.producer.enqueue([without_tags])
    assert await tags_of(observer, job.id) == []
