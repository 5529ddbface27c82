"""Lanes: an enqueue registers those of its available jobs, and no others."""

import pytest

from headgate.model.envelope import Envelope
from headgate.store.store import Store
from tests.store.rows import HOUR_MS, Observer, assert_lanes, lanes

FAR = 4_000_000_000_000


async def test_available_jobs_register_their_lanes_once(store: Store, observer: Observer) -> None:
    one = Envelope(
        kind="mail",
        queue="q",
        sticky_worker="w",
        priority=-3,
        partition_key="p",
        rate_class="r",
    )
    await store.producer.enqueue([one, one, Envelope(kind="mail"), one])
    assert await lanes(observer) == {("q", "w", -3, "p", "r"), ("default", "", 0, "", "")}
    await assert_lanes(observer)


async def test_each_column_of_a_lane_makes_another_one(store: Store, observer: Observer) -> None:
    envelopes = [
        Envelope(kind="mail"),
        Envelope(kind="mail", queue="q"),
        Envelope(kind="mail", sticky_worker="w"),
        Envelope(kind="mail", priority=1),
        Envelope(kind="mail", partition_key="p"),
        Envelope(kind="mail", rate_class="r"),
    ]
    await store.producer.enqueue(envelopes)
    assert len(await lanes(observer)) == len(envelopes)
    await assert_lanes(observer)


@pytest.mark.parametrize(
    "envelope",
    [
        Envelope(kind="mail", pending=True),
        Envelope(kind="mail", scheduled_at_ms=FAR),
        Envelope(kind="mail", unique_key=b"k", unique_debounce_ms=HOUR_MS),
    ],
    ids=["pending", "scheduled", "debounced"],
)
@pytest.mark.parametrize("slowly", [False, True])
async def test_a_job_that_waits_registers_none(
    store: Store, observer: Observer, envelope: Envelope, slowly: bool
) -> None:
    if slowly:
        await observer.execute("INSERT INTO headgate_enqueue_policy VALUES ('default', 10)")
    await store.producer.enqueue([envelope])
    assert await lanes(observer) == set()


async def test_the_slow_way_registers_too(store: Store, observer: Observer) -> None:
    await observer.execute("INSERT INTO headgate_enqueue_policy VALUES ('default', 10)")
    await store.producer.enqueue([Envelope(kind="mail", partition_key=key) for key in "ab"])
    assert {lane[3] for lane in await lanes(observer)} == {"a", "b"}
    await assert_lanes(observer)
