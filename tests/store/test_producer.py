"""What an enqueue writes: defaults, every column, ids, tags, placement."""

import json
from typing import Any

import pytest

from headgate.model.envelope import Envelope
from headgate.model.identity import effective_unique_key, fingerprint
from headgate.queries.enqueue import INPUTS, REQUIRED
from headgate.store.store import Store
from tests.store.rows import HOUR_MS, Observer, job_row, now_ms, tags_of

FAR = 4_000_000_000_000

DEFAULTS: dict[str, Any] = {
    "kind": "mail",
    "schema_version": 1,
    "payload": b"",
    "queue": "default",
    "state": "available",
    "partition_key": "",
    "rate_class": "",
    "weight": 1,
    "rate_charge": 0,
    "fingerprint": fingerprint("mail", b""),
    "priority": 0,
    "attempt": 0,
    "crash_attempt": 0,
    "max_attempts": 25,
    "timeout_ms": 0,
    "deadline_ms": 0,
    "retention_ms": 0,
    "finalized_at_ms": None,
    "lease_id": None,
    "lease_expires_at_ms": None,
    "claimed_at_ms": None,
    "fence": 0,
    "claimed_by": None,
    "unique_key": None,
    "unique_states": 0,
    "unique_expires_at_ms": None,
    "headers": "{}",
    "errors": "[]",
    "checkpoint": "{}",
    "cp_cursor": None,
    "result_schema_version": None,
    "result_bytes": None,
    "output_schema_version": None,
    "output_bytes": None,
    "output_fence": None,
    "output_updated_at_ms": None,
    "progress_current": None,
    "progress_total": None,
    "progress_message": None,
    "progress_fence": None,
    "progress_updated_at_ms": None,
    "periodic_schedule_id": "",
    "periodic_tick_ms": 0,
    "sticky_worker": "",
}

# What a producer may say, and what then stands in the row instead of the default.
GIVEN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "schema_version": ({"schema_version": 7}, {"schema_version": 7}),
    "partition_key": ({"partition_key": "tenant é"}, {"partition_key": "tenant é"}),
    "rate_class": ({"rate_class": "smtp"}, {"rate_class": "smtp"}),
    "weight": ({"weight": 2_147_483_647}, {"weight": 2_147_483_647}),
    "priority": ({"priority": -2_147_483_648}, {"priority": -2_147_483_648}),
    "max_attempts": ({"max_attempts": 3}, {"max_attempts": 3}),
    "scheduled_at_ms": ({"scheduled_at_ms": FAR}, {"state": "scheduled"}),
    "timeout_ms": ({"timeout_ms": 1}, {"timeout_ms": 1}),
    "deadline_ms": ({"deadline_ms": FAR}, {"deadline_ms": FAR}),
    "retention_ms": ({"retention_ms": 1_500}, {"retention_ms": 1_500}),
    "unique_key": (
        {"unique_key": b"k\0\xff"},
        {"unique_key": effective_unique_key("mail", b"k\0\xff", False)},
    ),
    "headers": ({"headers": {"b": 'q"\\', "a": "é"}}, {"headers": {"a": "é", "b": 'q"\\'}}),
    "tags": ({"tags": ("z", "a", "M")}, {}),
    "periodic_schedule_id": (
        {"periodic_schedule_id": "nightly", "periodic_tick_ms": 60_000},
        {"periodic_schedule_id": "nightly", "periodic_tick_ms": 60_000},
    ),
    "pending": ({"pending": True}, {"state": "pending"}),
    "sticky_worker": ({"sticky_worker": "worker-1"}, {"sticky_worker": "worker-1"}),
}


async def stored(observer: Observer, job_id: str) -> dict[str, Any]:
    """The row without what differs from run to run, which is checked here."""
    row = await job_row(observer, job_id)
    assert row is not None
    assert abs(row.pop("enqueued_at_ms") - await now_ms(observer)) < 60_000
    row.pop("id")
    row.pop("ulid")
    row.pop("scheduled_at_ms")
    return row


async def test_every_default(store: Store, observer: Observer) -> None:
    before = await now_ms(observer)
    [job] = await store.producer.enqueue([Envelope(kind="mail")])
    row = await job_row(observer, job.id)
    assert row is not None
    assert before <= row["enqueued_at_ms"] == row["scheduled_at_ms"] <= await now_ms(observer)
    assert await stored(observer, job.id) == DEFAULTS
    assert await tags_of(observer, job.id) == []


async def test_every_field_alone_and_all_together(store: Store, observer: Observer) -> None:
    relative = {"periodic_tick_ms", "unique_window_ms", "unique_debounce_ms", "delay_ms"}
    assert set(INPUTS) == REQUIRED | set(GIVEN) | relative
    cases = [(name, *GIVEN[name]) for name in GIVEN]
    together: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for _, (fields, columns) in GIVEN.items():
        if "pending" not in fields:
            together[0].update(fields)
            together[1].update(columns)
    cases.append(("together", together[0] | {"unique_key": b"another"}, together[1]))
    for name, fields, columns in cases:
        [job] = await store.producer.enqueue([Envelope(kind="mail", **fields)])
        row = await stored(observer, job.id)
        expected = DEFAULTS | columns
        if "unique_key" in fields:
            expected["unique_key"] = effective_unique_key("mail", fields["unique_key"], False)
        if "headers" in fields:
            row["headers"] = json.loads(row["headers"])
        assert row == expected, name
        assert await tags_of(observer, job.id) == sorted(fields.get("tags", ())), name


async def test_payload_kind_queue_and_fingerprint(store: Store, observer: Observer) -> None:
    payload = bytes(range(256)) * 4096
    [job] = await store.producer.enqueue(
        [Envelope(kind="mail:send", queue="out", payload=payload, fingerprint="mine")]
    )
    row = await stored(observer, job.id)
    assert row["payload"] == payload
    assert (row["kind"], row["queue"], row["fingerprint"]) == ("mail:send", "out", "mine")


async def test_a_batch_keeps_its_order_and_mixes_what_is_given(
    store: Store, observer: Observer
) -> None:
    envelopes = [
        Envelope(kind="first", priority=5, tags=("a",)),
        Envelope(kind="second", headers={"h": "1"}, scheduled_at_ms=FAR),
        Envelope(kind="third", id="chosen"),
        Envelope(kind="fourth", pending=True, tags=("a", "b")),
    ]
    jobs = await store.producer.enqueue(envelopes)
    assert jobs[2].id == "chosen"
    assert [job.replayed for job in jobs] == [False] * 4
    rows = await observer.fetch(
        "SELECT ulid, kind, state, priority, headers FROM headgate_job ORDER BY id"
    )
    assert [row["ulid"] for row in rows] == [job.id for job in jobs]
    assert [tuple(row)[1:] for row in rows] == [
        ("first", "available", 5, "{}"),
        ("second", "scheduled", 0, '{"h": "1"}'),
        ("third", "available", 0, "{}"),
        ("fourth", "pending", 0, "{}"),
    ]
    assert [await tags_of(observer, job.id) for job in jobs] == [["a"], [], [], ["a", "b"]]


async def test_an_empty_batch_asks_nobody(open_store: Any) -> None:
    nowhere = open_store(connect_timeout_ms=1)
    nowhere.producer._database = None
    assert await nowhere.producer.enqueue([]) == []


async def test_the_caller_keeps_his_envelopes(store: Store) -> None:
    envelope = Envelope(kind="mail", tags=("b", "a"))
    first, second = (await store.producer.enqueue([envelope]))[0], None
    second = (await store.producer.enqueue([envelope]))[0]
    assert (envelope.id, envelope.tags, envelope.fingerprint) == ("", ("b", "a"), "")
    assert first.id != second.id


@pytest.mark.parametrize(
    ("placed", "state"),
    [
        ({"scheduled_at_ms": 1}, "available"),
        ({"scheduled_at_ms": FAR}, "scheduled"),
        ({"pending": True}, "pending"),
    ],
)
async def test_a_due_time_is_kept_as_given(
    store: Store, observer: Observer, placed: dict[str, Any], state: str
) -> None:
    [job] = await store.producer.enqueue([Envelope(kind="mail", **placed)])
    row = await job_row(observer, job.id)
    assert row is not None
    assert row["state"] == state
    assert row["scheduled_at_ms"] == placed.get("scheduled_at_ms", row["enqueued_at_ms"])


async def test_a_delay_counts_from_the_enqueue(store: Store, observer: Observer) -> None:
    [job] = await store.producer.enqueue([Envelope(kind="mail", delay_ms=1_500)])
    row = await job_row(observer, job.id)
    assert row is not None
    assert row["state"] == "scheduled"
    assert row["scheduled_at_ms"] == row["enqueued_at_ms"] + 1_500


async def test_a_debounce_waits_its_window(store: Store, observer: Observer) -> None:
    [job] = await store.producer.enqueue(
        [Envelope(kind="mail", unique_key=b"k", unique_debounce_ms=HOUR_MS)]
    )
    row = await job_row(observer, job.id)
    assert row is not None
    assert (row["state"], row["unique_expires_at_ms"]) == ("scheduled", None)
    assert row["scheduled_at_ms"] == row["enqueued_at_ms"] + HOUR_MS


@pytest.mark.parametrize("window_ms", [1, 500, 1_500])
async def test_a_throttle_keeps_its_window_to_the_millisecond(
    store: Store, observer: Observer, window_ms: int
) -> None:
    [job] = await store.producer.enqueue(
        [Envelope(kind="mail", unique_key=b"", unique_window_ms=window_ms)]
    )
    row = await job_row(observer, job.id)
    assert row is not None
    assert row["unique_key"] == effective_unique_key("mail", b"", False)
    assert row["unique_expires_at_ms"] == row["enqueued_at_ms"] + window_ms
