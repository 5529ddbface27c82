"""Every way an attempt may be reported, and what then stands in the row."""

import json
from typing import Any

import pytest

from headgate.model.envelope import Envelope
from headgate.model.errors import InvalidRequest
from headgate.model.job import Acknowledgement, Lease, Stored
from headgate.model.lifecycle import Outcome
from headgate.model.texts import CUT_MARK, MAX_TEXT_BYTES
from headgate.store.store import Store
from tests.store.rows import HOUR_MS, Observer, count_jobs, job_row, now_ms, start, state_of


async def running(store: Store, observer: Observer, **fields: Any) -> Lease:
    [job] = await store.producer.enqueue([Envelope(**{"kind": "mail", **fields})])
    [lease] = await start(observer, [job.id])
    return lease


async def settle(store: Store, lease: Lease, outcome: Outcome, **fields: Any) -> str | None:
    report = Acknowledgement(lease=lease, outcome=outcome, **fields)
    [settlement] = await store.leases.acknowledge([report])
    assert settlement.job_id == lease.job_id
    return settlement.state


async def history(observer: Observer, job_id: str) -> list[dict[str, Any]]:
    row = await job_row(observer, job_id)
    assert row is not None
    entries: list[dict[str, Any]] = json.loads(row["errors"])
    for entry in entries:
        assert abs(entry.pop("at_ms") - await now_ms(observer)) < 60_000
    return entries


async def test_success_deletes_or_keeps(store: Store, observer: Observer) -> None:
    lease = await running(store, observer)
    assert await settle(store, lease, Outcome.SUCCESS) == "deleted"
    assert await count_jobs(observer) == 0
    lease = await running(store, observer, retention_ms=1_500)
    assert await settle(store, lease, Outcome.SUCCESS) == "completed"
    row = await job_row(observer, lease.job_id)
    assert row is not None
    assert (row["retention_ms"], row["errors"]) == (1_500, "[]")


async def test_a_result_is_published_with_the_success(store: Store, observer: Observer) -> None:
    leases = [await running(store, observer, retention_ms=HOUR_MS) for _ in range(3)]
    blob = b"\0\xff" * 1_000_000
    results = [Stored(2_147_483_647, blob), None, Stored(1, b"")]
    reports = [
        Acknowledgement(lease=lease, outcome=Outcome.SUCCESS, result=result)
        for lease, result in zip(leases, results, strict=True)
    ]
    await store.leases.acknowledge(reports)
    rows = [await job_row(observer, lease.job_id) for lease in leases]
    found = [(row["result_schema_version"], row["result_bytes"]) for row in rows if row]
    assert found == [(2_147_483_647, blob), (None, None), (1, b"")]


async def test_logs_of_a_success_make_an_entry(store: Store, observer: Observer) -> None:
    told = await running(store, observer, retention_ms=HOUR_MS)
    silent = await running(store, observer, retention_ms=HOUR_MS)
    await store.leases.acknowledge(
        [
            Acknowledgement(lease=told, outcome=Outcome.SUCCESS, logs=("one", "two")),
            Acknowledgement(lease=silent, outcome=Outcome.SUCCESS),
        ]
    )
    assert await history(observer, told.job_id) == [
        {"attempt": 1, "outcome": "success", "logs": ["one", "two"]}
    ]
    assert await history(observer, silent.job_id) == []


@pytest.mark.parametrize("attempt", [0, 3, 20, 23])
async def test_a_retry_waits_longer_each_time(
    store: Store, observer: Observer, attempt: int
) -> None:
    lease = await running(store, observer)
    await observer.execute("UPDATE headgate_job SET attempt = $1", attempt)
    before = await now_ms(observer)
    assert await settle(store, lease, Outcome.RETRY, error="boom") == "retryable"
    row = await job_row(observer, lease.job_id)
    assert row is not None
    backoff = min(3_600_000, 1_000 * 2**attempt)
    waits = row["scheduled_at_ms"]
    assert before + backoff <= waits <= await now_ms(observer) + backoff + 1_000
    assert row["attempt"] == attempt + 1
    assert await history(observer, lease.job_id) == [
        {"attempt": attempt + 1, "outcome": "retry", "error": "boom"}
    ]


async def test_backoff_spreads_a_herd(store: Store, observer: Observer) -> None:
    leases = [await running(store, observer) for _ in range(20)]
    await store.leases.acknowledge(
        [Acknowledgement(lease=lease, outcome=Outcome.RETRY) for lease in leases]
    )
    assert await observer.fetchval("SELECT count(DISTINCT scheduled_at_ms) FROM headgate_job") > 10


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Outcome.RETRY, "retryable"),
        (Outcome.SNOOZE, "scheduled"),
        (Outcome.RATE_LIMITED, "scheduled"),
    ],
)
async def test_a_delay_counts_from_the_clock_of_the_database(
    store: Store, observer: Observer, outcome: Outcome, state: str
) -> None:
    lease = await running(store, observer, scheduled_at_ms=1)
    before = await now_ms(observer)
    assert await settle(store, lease, outcome, delay_ms=1) == state
    row = await job_row(observer, lease.job_id)
    assert row is not None
    assert before + 1 <= row["scheduled_at_ms"] <= await now_ms(observer) + 1


async def test_bc_37_a_delay_does_not_lift_the_limit_of_attempts(
    store: Store, observer: Observer
) -> None:
    lease = await running(store, observer, max_attempts=2)
    assert await settle(store, lease, Outcome.RETRY, delay_ms=0) == "retryable"
    await store.upkeep.promote_due(1)
    [lease] = await start(observer, [lease.job_id])
    assert await settle(store, lease, Outcome.RETRY, delay_ms=1_000) == "archived"


async def test_a_rate_limited_job_keeps_its_place(store: Store, observer: Observer) -> None:
    lease = await running(store, observer, scheduled_at_ms=5)
    assert await settle(store, lease, Outcome.RATE_LIMITED, error="429") == "available"
    row = await job_row(observer, lease.job_id)
    assert row is not None
    assert (row["scheduled_at_ms"], row["attempt"], row["errors"]) == (5, 0, "[]")


@pytest.mark.parametrize("outcome", [Outcome.SKIP, Outcome.UNDECODABLE])
async def test_an_end_without_success_may_say_why(
    store: Store, observer: Observer, outcome: Outcome
) -> None:
    state = {"skip": "archived", "undecodable": "undecodable"}[outcome]
    cases: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
        ({}, []),
        ({"error": "why"}, [{"error": "why"}]),
        ({"logs": ("l",)}, [{"logs": ["l"]}]),
        ({"error": "", "logs": ("l",)}, [{"error": "", "logs": ["l"]}]),
    ]
    for told, entries in cases:
        lease = await running(store, observer)
        assert await settle(store, lease, outcome, **told) == state
        head = {"attempt": 1, "outcome": state}
        assert await history(observer, lease.job_id) == [head | entry for entry in entries]


@pytest.mark.parametrize("outcome", [Outcome.SNOOZE, Outcome.RATE_LIMITED])
async def test_a_postponement_leaves_no_trace(
    store: Store, observer: Observer, outcome: Outcome
) -> None:
    lease = await running(store, observer)
    await settle(store, lease, outcome, delay_ms=5, error="why", logs=("l",))
    assert await history(observer, lease.job_id) == []


async def test_the_history_keeps_the_newest_fifty(store: Store, observer: Observer) -> None:
    lease = await running(store, observer, max_attempts=1_000)
    await observer.execute(
        "UPDATE headgate_job SET errors = (SELECT jsonb_agg(jsonb_build_object('at_ms',"
        " (extract(epoch from clock_timestamp()) * 1000)::bigint, 'n', n))"
        " FROM generate_series(1, 49) AS n)"
    )
    for error in ("a", "b"):
        await settle(store, lease, Outcome.RETRY, error=error, delay_ms=0)
        await store.upkeep.promote_due(1)
        [lease] = await start(observer, [lease.job_id])
    entries = await history(observer, lease.job_id)
    assert [entry.get("n") for entry in entries] == [*range(2, 50), None, None]
    assert [entry.get("error") for entry in entries[-2:]] == ["a", "b"]


async def test_bc_56_texts_are_cleaned_not_refused(store: Store, observer: Observer) -> None:
    nul = await running(store, observer)
    half = await running(store, observer)
    huge = await running(store, observer)
    logged = await running(store, observer, retention_ms=HOUR_MS)
    settlements = await store.leases.acknowledge(
        [
            Acknowledgement(lease=nul, outcome=Outcome.RETRY, error="a\0b", logs=("c\0d",)),
            Acknowledgement(lease=half, outcome=Outcome.SKIP, error="x\ud800y"),
            Acknowledgement(lease=huge, outcome=Outcome.UNDECODABLE, error="é" * 1_000_000),
            Acknowledgement(lease=logged, outcome=Outcome.SUCCESS, logs=("n\0\udfff",)),
        ]
    )
    states = [settlement.state for settlement in settlements]
    assert states == ["retryable", "archived", "undecodable", "completed"]
    [entry] = await history(observer, nul.job_id)
    assert (entry["error"], entry["logs"]) == ("ab", ["cd"])
    [entry] = await history(observer, half.job_id)
    assert entry["error"] == "x\ufffdy"
    [entry] = await history(observer, huge.job_id)
    assert entry["error"].endswith(CUT_MARK)
    assert len(entry["error"].encode()) <= MAX_TEXT_BYTES
    [entry] = await history(observer, logged.job_id)
    assert entry["logs"] == ["n\ufffd"]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"outcome": Outcome.SNOOZE}, "snooze requires delay_ms > 0"),
        ({"outcome": Outcome.SNOOZE, "delay_ms": 0}, "snooze requires delay_ms > 0"),
        ({"outcome": Outcome.RETRY, "delay_ms": -1}, "delay_ms must be >= 0"),
        ({"outcome": Outcome.RETRY, "delay_ms": 2**62}, "delay_ms is too large"),
        (
            {"outcome": Outcome.SUCCESS, "result": Stored(0, b"")},
            "result schema_version must be greater than zero",
        ),
        (
            {"outcome": Outcome.SUCCESS, "result": Stored(2**31, b"")},
            "result schema_version is too large",
        ),
    ],
)
async def test_what_no_row_can_take_is_refused_before_the_others_are_written(
    store: Store, observer: Observer, fields: dict[str, Any], text: str
) -> None:
    good = await running(store, observer)
    bad = await running(store, observer)
    with pytest.raises(InvalidRequest, match=text):
        await store.leases.acknowledge(
            [
                Acknowledgement(lease=good, outcome=Outcome.SUCCESS),
                Acknowledgement(lease=bad, **fields),
            ]
        )
    assert await state_of(observer, good.job_id) == "running"
    assert await settle(store, good, Outcome.SUCCESS) == "deleted"
