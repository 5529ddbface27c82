"""One job by its id: every action from every state, in its own words, and nothing by guess."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headgate.model.conditions import Facts
from headgate.model.envelope import Envelope
from headgate.model.errors import InvalidRequest, NotFound
from headgate.model.identity import fingerprint
from headgate.model.job import Acknowledgement
from headgate.model.lifecycle import (
    DELETED,
    OPERATOR_ACTIONS,
    Event,
    OperatorAction,
    Outcome,
    State,
    apply,
)
from headgate.model.limits import MAX_MS, MAX_PAYLOAD_BYTES
from headgate.model.operators import refusal
from headgate.store.control import Control
from headgate.store.store import Store
from tests.store.backlog import admit, ceiling
from tests.store.journeys import FAR, bring
from tests.store.rows import (
    HOUR_MS,
    Observer,
    assert_lanes,
    job_row,
    now_ms,
    start,
    state_of,
    tags_of,
)

Act = Callable[[Control, str], Awaitable[None]]

ACTIONS: dict[OperatorAction, Act] = {
    OperatorAction.PROMOTE: Control.promote,
    OperatorAction.RETRY: Control.retry,
    OperatorAction.CANCEL: Control.cancel,
    OperatorAction.DELETE: Control.delete,
    OperatorAction.RESCHEDULE: lambda control, job_id: control.reschedule(job_id, FAR + 1),
    OperatorAction.EDIT_PAYLOAD: lambda control, job_id: control.edit_payload(job_id, b"new"),
}
EVENTS = {
    OperatorAction.PROMOTE: Event.OPERATOR_PROMOTE,
    OperatorAction.RETRY: Event.OPERATOR_RETRY,
    OperatorAction.CANCEL: Event.OPERATOR_CANCEL,
    OperatorAction.DELETE: Event.OPERATOR_DELETE,
}


async def row_of(observer: Observer, job_id: str) -> dict[str, Any]:
    row = await job_row(observer, job_id)
    assert row is not None
    return row


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("action", ACTIONS)
async def test_each_action_from_each_state(
    store: Store, observer: Observer, action: OperatorAction, state: State
) -> None:
    job_id = await bring(store, observer, Envelope(kind="mail"), state)
    before = await row_of(observer, job_id)
    if state in OPERATOR_ACTIONS[action]:
        await ACTIONS[action](store.control, job_id)
        event = EVENTS.get(action)
        target = state if event is None else apply(state, event, Facts())
        assert await state_of(observer, job_id) == (None if target == DELETED else target)
        await assert_lanes(observer)
    else:
        with pytest.raises(InvalidRequest) as refused:
            await ACTIONS[action](store.control, job_id)
        assert refused.value.message == refusal(action, job_id, state).message
        assert await job_row(observer, job_id) == before


@pytest.mark.parametrize("job_id", ["nobody", "", "\ud7ff", "x" * 3_000])
@pytest.mark.parametrize("action", ACTIONS)
async def test_an_unknown_job(store: Store, action: OperatorAction, job_id: str) -> None:
    with pytest.raises(NotFound) as missing:
        await ACTIONS[action](store.control, job_id)
    assert str(missing.value) == f"not found: job {job_id}"


@pytest.mark.parametrize("action", ACTIONS)
async def test_an_id_that_no_text_can_hold(store: Store, action: OperatorAction) -> None:
    with pytest.raises(InvalidRequest, match="id must not contain NUL"):
        await ACTIONS[action](store.control, "a\0b")


@pytest.mark.parametrize("action", [OperatorAction.PROMOTE, OperatorAction.RETRY])
async def test_whoever_becomes_available_is_due_now_and_announced(
    store: Store, observer: Observer, action: OperatorAction
) -> None:
    state = State.PENDING if action is OperatorAction.PROMOTE else State.ARCHIVED
    envelope = Envelope(
        kind="mail", queue="q", sticky_worker="w", priority=4, partition_key="p", rate_class="r"
    )
    job_id = await bring(store, observer, envelope, state)
    await observer.execute("DELETE FROM headgate_active_partition")
    await observer.execute("UPDATE headgate_job SET scheduled_at_ms = 1, attempt = 3")
    started = await now_ms(observer)
    with store.listener.subscribe() as subscription:
        async with asyncio.timeout(10):
            while "" not in await subscription.wait(10_000):
                pass
            await ACTIONS[action](store.control, job_id)
            assert await subscription.wait(10_000) == {"q"}
    row = await row_of(observer, job_id)
    assert started <= row["scheduled_at_ms"] <= await now_ms(observer)
    assert (row["finalized_at_ms"], row["claimed_at_ms"], row["attempt"]) == (None, None, 3)
    await assert_lanes(observer)
    assert [claim.job_id for claim in await admit(store, 5, "q", worker="w")] == [job_id]


async def test_a_retry_keeps_what_the_job_went_through(store: Store, observer: Observer) -> None:
    [job] = await store.producer.enqueue([Envelope(kind="mail", max_attempts=1, tags=("a", "b"))])
    [lease] = await start(observer, [job.id])
    await store.leases.acknowledge(
        [Acknowledgement(lease=lease, outcome=Outcome.RETRY, error="boom")]
    )
    before = await row_of(observer, job.id)
    await store.control.retry(job.id)
    after = await row_of(observer, job.id)
    for name in ("attempt", "crash_attempt", "errors", "fence", "enqueued_at_ms", "payload"):
        assert after[name] == before[name], name
    assert await tags_of(observer, job.id) == ["a", "b"]


async def test_cancelling_a_running_job_ends_its_lease(store: Store, observer: Observer) -> None:
    await ceiling(observer, "default", 1)
    first, second = await store.producer.enqueue([Envelope(kind="mail"), Envelope(kind="mail")])
    [claim] = await admit(store, 5)
    assert (claim.job_id, await admit(store, 5)) == (first.id, [])
    await store.control.cancel(first.id)
    row = await row_of(observer, first.id)
    assert (row["state"], row["fence"]) == ("cancelled", claim.fence)
    assert (row["lease_id"], row["lease_expires_at_ms"], row["claimed_by"]) == (None, None, None)
    assert row["finalized_at_ms"] >= claim.claimed_at_ms
    assert row["rate_charge"] == 0
    # Its holder learns of it, and its slot is free at once.
    assert await store.leases.renew([claim.lease], HOUR_MS) == [first.id]
    report = Acknowledgement(lease=claim.lease, outcome=Outcome.SUCCESS)
    assert [answer.state for answer in await store.leases.acknowledge([report])] == [None]
    assert [next_.job_id for next_ in await admit(store, 5)] == [second.id]


async def test_bc_63_what_cannot_be_decoded_can_be_deleted(
    store: Store, observer: Observer
) -> None:
    job_id = await bring(store, observer, Envelope(kind="mail"), State.UNDECODABLE)
    with pytest.raises(InvalidRequest, match="operator_cancel is not defined from undecodable"):
        await store.control.cancel(job_id)
    await store.control.delete(job_id)
    assert await job_row(observer, job_id) is None


async def test_reschedule_moves_the_due_time_alone(store: Store, observer: Observer) -> None:
    job_id = await bring(store, observer, Envelope(kind="mail"), State.SCHEDULED)
    before = await row_of(observer, job_id)
    for due in (0, 1, MAX_MS):
        await store.control.reschedule(job_id, due)
        assert await job_row(observer, job_id) == {**before, "scheduled_at_ms": due}


@pytest.mark.parametrize(
    ("due_at_ms", "text"),
    [(-1, "scheduled_at_ms must be >= 0"), (MAX_MS + 1, "scheduled_at_ms is too large")],
)
async def test_a_due_time_that_no_job_can_have(store: Store, due_at_ms: int, text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await store.control.reschedule("nobody", due_at_ms)
    assert refused.value.message == text


async def test_an_edit_brings_its_fingerprint(store: Store, observer: Observer) -> None:
    [job] = await store.producer.enqueue([Envelope(kind="a", payload=b"zz", schema_version=4)])
    before = await row_of(observer, job.id)
    await store.control.edit_payload(job.id, b"bc")
    edited: dict[str, Any] = {"payload": b"bc", "fingerprint": "47ea6f805c5b663e33012cd34184e139"}
    assert await job_row(observer, job.id) == {**before, **edited}
    await store.control.edit_payload(job.id, b"", schema_version=5)
    edited = {"payload": b"", "schema_version": 5, "fingerprint": fingerprint("a", b"")}
    assert await job_row(observer, job.id) == {**before, **edited}
    await store.control.edit_payload(job.id, b"", schema_version=0)
    assert (await row_of(observer, job.id))["schema_version"] == 1


@pytest.mark.parametrize(
    ("payload", "schema_version", "text"),
    [
        (b"x" * (MAX_PAYLOAD_BYTES + 1), None, "payload must be at most 1048576 bytes"),
        (b"", -1, "schema_version must be >= 0"),
        (b"", 2**31, "schema_version is too large"),
    ],
)
async def test_a_payload_that_no_job_can_have(
    store: Store, payload: bytes, schema_version: int | None, text: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await store.control.edit_payload("nobody", payload, schema_version=schema_version)
    assert refused.value.message == text
