from dataclasses import dataclass

import pytest

from headgate import Envelope, Headgate, Store
from headgate.testing import assert_enqueued, drain, find_enqueued, refute_enqueued


@dataclass
class Order:
    number: int
    city: str = "Riga"


async def test_what_was_enqueued_is_found_by_task_payload_and_fields(
    app: Headgate, store: Store
) -> None:
    @app.task("ship")
    async def ship(payload: Order) -> None: ...

    await ship.enqueue(Order(1), queue="parcels", partition_key="acme", tags=["b", "a"])
    await ship.enqueue(Order(2))
    [job] = await assert_enqueued(store, ship, Order(1), queue="parcels", partition_key="acme")
    assert job.kind == "ship"
    await assert_enqueued(store, ship, {"number": 1}, tags=["a", "b"])
    await assert_enqueued(store, "ship", {"city": "Riga"}, times=2)
    await assert_enqueued(store, ship, times=2)
    await refute_enqueued(store, ship, {"number": 3})
    await refute_enqueued(store, "other")
    assert [job.queue for job in await find_enqueued(store, ship)] == ["parcels", "default"]


async def test_a_failure_lists_what_is_there(store: Store) -> None:
    await store.producer.enqueue(
        [Envelope(kind="mail", payload=b'{"to":%d}' % number) for number in range(22)]
    )
    with pytest.raises(AssertionError) as failed:
        await assert_enqueued(store, "mail", {"to": 99}, queue="letters")
    text = str(failed.value)
    assert "expected a job of kind mail with payload {'to': 99} with queue 'letters'" in text
    assert "found 0" in text
    assert """mail in default (available) b'{"to":0}'""" in text
    assert "and 2 more" in text
    with pytest.raises(AssertionError, match="expected 3 jobs of kind mail, found 22"):
        await assert_enqueued(store, "mail", times=3)
    with pytest.raises(AssertionError, match="found 22"):
        await refute_enqueued(store, "mail")


async def test_what_has_run_is_not_enqueued_any_more(app: Headgate, store: Store) -> None:
    @app.task("ship")
    async def ship() -> None: ...

    await ship.enqueue(retention_ms=60_000)
    await assert_enqueued(store, ship, times=1)
    await drain(app, store)
    await refute_enqueued(store, ship)


async def test_payloads_that_are_no_json_are_compared_as_bytes(store: Store) -> None:
    await store.producer.enqueue([Envelope(kind="raw", payload=b"\xff\x00")])
    await assert_enqueued(store, "raw", b"\xff\x00")
    await refute_enqueued(store, "raw", b"\xff")
