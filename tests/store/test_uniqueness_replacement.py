"""What a duplicate may replace in the job that holds its key, bit by bit and state by state."""

from typing import Any

import pytest

from headgate.model.envelope import Envelope
from headgate.model.errors import DuplicateJob
from headgate.model.identity import fingerprint
from headgate.model.lifecycle import State
from headgate.store.store import Store
from tests.store.journeys import LIVE_STATES, bring
from tests.store.rows import Observer, assert_lanes, job_row, lanes, now_ms, tags_of

DUE = 3_999_999_999_999
PAYLOAD, SCHEDULED_AT, PRIORITY, MAX_ATTEMPTS = 1, 2, 4, 8

REPLACED: dict[int, dict[str, Any]] = {
    PAYLOAD: {"payload": b"new", "schema_version": 9, "fingerprint": fingerprint("mail", b"new")},
    SCHEDULED_AT: {"scheduled_at_ms": DUE},
    PRIORITY: {"priority": 7},
    MAX_ATTEMPTS: {"max_attempts": 4},
}


def newcomer(key: bytes, mask: int) -> Envelope:
    """A duplicate in which every column differs from the holder."""
    return Envelope(
        kind="mail",
        unique_key=key,
        unique_replace=mask,
        payload=b"new",
        schema_version=9,
        priority=7,
        max_attempts=4,
        scheduled_at_ms=DUE,
        partition_key="other",
        rate_class="other",
        sticky_worker="other",
        queue="other",
        weight=5,
        timeout_ms=5,
        deadline_ms=DUE,
        retention_ms=5,
        headers={"new": "1"},
        tags=("new",),
    )


def expected(mask: int, state: State) -> dict[str, Any]:
    """The columns that a duplicate of this mask changes in a holder of this state."""
    if state is State.RUNNING:
        return {}
    changes: dict[str, Any] = {}
    for bit, columns in REPLACED.items():
        if mask & bit and (bit != SCHEDULED_AT or state is State.SCHEDULED):
            changes |= columns
    return changes


@pytest.mark.parametrize("state", LIVE_STATES)
async def test_each_mask_replaces_its_columns_and_nothing_else(
    store: Store, observer: Observer, state: State
) -> None:
    for mask in range(1, 16):
        key = bytes([mask])
        holder = await bring(store, observer, Envelope(kind="mail", unique_key=key), state)
        before = await job_row(observer, holder)
        with pytest.raises(DuplicateJob) as duplicate:
            await store.producer.enqueue([newcomer(key, mask)])
        changes = expected(mask, state)
        found = (duplicate.value.existing_id, duplicate.value.replaced)
        assert found == (holder, bool(changes)), mask
        assert before is not None
        assert await job_row(observer, holder) == before | changes, mask
        assert await tags_of(observer, holder) == []
    await assert_lanes(observer)


async def test_a_new_priority_registers_the_lane_of_an_available_holder(
    store: Store, observer: Observer
) -> None:
    await bring(store, observer, Envelope(kind="mail", unique_key=b"a"), State.AVAILABLE)
    await bring(store, observer, Envelope(kind="mail", unique_key=b"s"), State.SCHEDULED)
    for key in (b"a", b"s"):
        with pytest.raises(DuplicateJob):
            await store.producer.enqueue(
                [Envelope(kind="mail", unique_key=key, unique_replace=PRIORITY, priority=key[0])]
            )
    assert {lane[2] for lane in await lanes(observer)} == {0, ord("a")}


@pytest.mark.parametrize("delay_ms", [0, 5_000])
async def test_a_due_time_of_now_or_after_a_delay(
    store: Store, observer: Observer, delay_ms: int
) -> None:
    holder = await bring(store, observer, Envelope(kind="mail", unique_key=b"k"), State.SCHEDULED)
    before = await now_ms(observer)
    with pytest.raises(DuplicateJob):
        await store.producer.enqueue(
            [Envelope(kind="mail", unique_key=b"k", unique_replace=SCHEDULED_AT, delay_ms=delay_ms)]
        )
    row = await job_row(observer, holder)
    assert row is not None
    assert before + delay_ms <= row["scheduled_at_ms"] <= await now_ms(observer) + delay_ms
    # Only the due time moves; becoming available is the promoter's business.
    assert row["state"] == "scheduled"


async def test_a_quarantined_payload_replaces_nothing(store: Store, observer: Observer) -> None:
    holder = await bring(store, observer, Envelope(kind="mail", unique_key=b"k"), State.AVAILABLE)
    before = await job_row(observer, holder)
    await observer.execute("INSERT INTO headgate_quarantine VALUES ('bad', 'mail', 3, 1)")
    with pytest.raises(Exception, match="quarantined"):
        await store.producer.enqueue(
            [Envelope(kind="mail", unique_key=b"k", unique_replace=PAYLOAD, fingerprint="bad")]
        )
    assert await job_row(observer, holder) == before


async def test_without_a_holder_the_mask_says_nothing(store: Store, observer: Observer) -> None:
    [job] = await store.producer.enqueue([newcomer(b"k", 15)])
    row = await job_row(observer, job.id)
    assert row is not None
    assert (row["queue"], row["state"]) == ("other", "scheduled")
