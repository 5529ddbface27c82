"""Workers, duties, schedules, quarantine, archive: what operators look at."""

from typing import Any

import pytest
from sqlalchemy import insert

from headgate.api.periodic import ScheduleBody
from headgate.store.store import Store
from headgate.tables import job_archive, quarantine
from tests.contract.client import Client
from tests.contract.job_states import put_into
from tests.contract.jobs import enqueue, job_of

COMMANDS = "command must be quiet, resume, restart, terminate, or resign"
SPEC = {"kind": "t.p", "spec": "@every:3600000"}


async def test_signals_are_judged_before_the_worker_is_looked_for(client: Client) -> None:
    for body, status, error in (
        ({"command": "explode"}, 400, COMMANDS),
        ({"command": ""}, 400, COMMANDS),
        ({"command": 1}, 422, "invalid request body"),
        ({"command": "quiet"}, 404, "not found: worker w"),
        ({}, 404, "not found: worker w"),
    ):
        answer = await client.request("POST", "/workers/w/signal", json=body)
        assert (answer.status, answer.json()) == (status, {"error": error})


async def test_a_cluster_of_nobody(client: Client) -> None:
    assert (await client.get("/workers")).json() == []
    assert (await client.get("/cluster")).json() == {
        "workers": {"live": 0, "stale": 0, "total": 0},
        "capacity_total": 0,
        "inflight_total": 0,
        "utilization": 0.0,
        "empty_poll_ratio": 0.0,
        "polls_total": 0,
        "empty_polls_total": 0,
        "queues": [],
    }


async def test_duties_and_who_has_them(client: Client, store: Store) -> None:
    assert (await client.get("/duties")).json() == []
    await store.duties.claim("promoter", "w-1", 60_000)
    await store.duties.claim("ledger", "w-2", 60_000)
    await store.duties.release("ledger", "w-2")
    await store.duties.report(
        "promoter", "w-1", 60_000, handled=1_000, done=False, interval_ms=3_600_000
    )
    await store.duties.report(
        "promoter", "w-1", 60_000, handled=17, done=True, interval_ms=3_600_000
    )
    assert not await store.duties.report(
        "ledger", "w-1", 60_000, handled=5, done=True, interval_ms=1_000
    )
    ledger, promoter = (await client.get("/duties")).json()
    assert ledger == {
        "name": "ledger",
        "holder": None,
        "expires_at_ms": None,
        "last_success_ms": None,
        "lag_ms": None,
        "rows_handled": 0,
    }
    assert (promoter["name"], promoter["holder"]) == ("promoter", "w-1")
    assert promoter["expires_at_ms"] > 1_700_000_000_000
    assert 1_700_000_000_000 < promoter["last_success_ms"] < promoter["expires_at_ms"]
    assert (promoter["lag_ms"], promoter["rows_handled"]) == (0, 1_017)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"payload": "!", "on_missed": "x"}, "payload must be base64"),
        ({"on_missed": "x", "spec": "x"}, "on_missed must be skip|run_once|backfill"),
        ({"spec": "x", "kind": ""}, "bad cron `x`: want 5 fields, or 6 with seconds"),
        ({"queue": ""}, "queue must not be empty"),
        ({"max_attempts": 0}, "max_attempts must be >= 1"),
        ({"max_attempts": 2**31}, "max_attempts is too large"),
        ({"backfill_limit": 2**31}, "backfill_limit is too large"),
        ({"retention_ms": -1}, "retention_ms must be >= 0"),
        ({"rate_class": "\0"}, "rate_class must not contain NUL"),
    ],
)
async def test_schedules_that_could_never_work(
    client: Client, change: dict[str, Any], error: str
) -> None:
    answer = await client.request("PUT", "/periodic/s", json={**SPEC, **change})
    assert (answer.status, answer.json()) == (400, {"error": error})
    assert (await client.get("/periodic")).json() == []


async def test_a_schedule_is_run_once_per_key(client: Client) -> None:
    optional = set(ScheduleBody.__struct_fields__) - {"kind", "spec", "paused"}
    null = dict.fromkeys(optional)
    assert (await client.request("PUT", "/periodic/a:b", json={**SPEC, **null})).status == 200
    (schedule,) = (await client.get("/periodic")).json()
    assert (schedule["queue"], schedule["max_attempts"], schedule["on_missed"]) == (
        "default",
        25,
        "skip",
    )
    await client.request("PUT", "/periodic/a:b", json={**SPEC, "paused": True, "payload": "AA=="})
    first = await client.request("POST", "/periodic/a:b/run", key="k")
    again = await client.request("POST", "/periodic/a:b/run", key="k")
    other = await client.request("POST", "/periodic/a:b/run", key="l")
    assert (first.status, again.status, other.status) == (202, 202, 202)
    assert again.json() == {"id": first.json()["id"], "replayed": True}
    assert other.json()["id"] != first.json()["id"]
    job = await job_of(client, first.json()["id"])
    assert (job["kind"], job["payload"], job["periodic_origin"]) == ("t.p", "AA==", None)
    (unmoved,) = (await client.get("/periodic")).json()
    assert unmoved["next_run_ms"] == schedule["next_run_ms"]
    assert unmoved["last_enqueued_ms"] is None


async def test_running_a_schedule_is_an_enqueue(client: Client) -> None:
    await client.request("PUT", "/periodic/s", json={**SPEC, "queue": "full"})
    await client.request("PUT", "/queues/full/enqueue-limit", json={"max_unfinished_jobs": 0})
    answer = await client.request("POST", "/periodic/s/run")
    assert (answer.status, answer.json()["error"]) == (429, "enqueue backpressure")


async def test_events_page_by_page(client: Client, store: Store) -> None:
    await client.request("PUT", "/periodic/s", json={"kind": "t.p", "spec": "@every:1"})
    for _ in range(3):
        (due,) = await store.schedules.due(1)
        await store.schedules.fire(due)
    whole = (await client.get("/periodic/s/enqueue-events")).json()
    assert (len(whole["events"]), whole["next_cursor"]) == (3, None)
    assert {each["outcome"] for each in whole["events"]} == {"enqueued"}
    page = (await client.get("/periodic/s/enqueue-events?limit=2")).json()
    assert page["events"] == whole["events"][:2]
    rest = await client.get(f"/periodic/s/enqueue-events?limit=2&cursor={page['next_cursor']}")
    assert rest.json() == {"events": whole["events"][2:], "next_cursor": None}
    first = await client.get("/periodic/s/enqueue-events?cursor=18446744073709551615")
    assert first.json() == whole


async def test_a_release_frees_what_is_parked(
    client: Client, store: Store, headgate_database: str
) -> None:
    for name in ("one", "two"):
        await enqueue(client, name)
        await put_into(headgate_database, name, "quarantined")
    fingerprint = (await job_of(client, "one"))["fingerprint"]
    await store.database.fetch(
        insert(quarantine).values(
            fingerprint=fingerprint, kind="t.k", crash_count=3, quarantined_at_ms=5, reason="x"
        )
    )
    assert (await client.get("/quarantine")).json() == [
        {
            "fingerprint": fingerprint,
            "kind": "t.k",
            "crash_count": 3,
            "quarantined_at_ms": 5,
            "reason": "x",
        }
    ]
    released = await client.request("DELETE", f"/quarantine/{fingerprint}")
    assert (released.status, released.headers["x-released-jobs"]) == (204, "2")
    assert (await job_of(client, "two"))["state"] == "available"
    again = await client.request("DELETE", f"/quarantine/{fingerprint}")
    assert again.status == 404


async def test_the_archive_page_by_page(client: Client, store: Store) -> None:
    for number in range(3):
        await store.database.fetch(
            insert(job_archive).values(
                ulid=f"job-{number}",
                kind="t.k",
                queue="q",
                state="archived",
                payload=b"secret",
                fingerprint="f",
                attempt=25,
                crash_attempt=0,
                errors="[]",
                finalized_at_ms=1,
                evicted_at_ms=number,
                archive_retention_ms=1000,
            )
        )
    page = (await client.get("/archive?queue=q&limit=2")).json()
    assert [each["id"] for each in page["jobs"]] == ["job-2", "job-1"]
    assert "payload" not in page["jobs"][0]
    rest = (await client.get(f"/archive?queue=q&limit=2&cursor={page['next_cursor']}")).json()
    assert [each["id"] for each in rest["jobs"]] == ["job-0"]
    assert rest["next_cursor"] is None
    assert (await client.get("/archive?queue=other")).json() == {"jobs": [], "next_cursor": None}
    for query, error in (
        ("", "missing query parameter `queue`"),
        ("?queue=q&cursor=x", "bad cursor"),
        ("?queue=q&limit=201", "limit must be between 1 and 200"),
    ):
        answer = await client.get(f"/archive{query}")
        assert (answer.status, answer.json()) == (400, {"error": error})
