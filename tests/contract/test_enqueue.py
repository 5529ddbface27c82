"""POST /jobs beyond the shared cases: every field arrives, one request makes one job."""

import asyncio
from typing import Any

import pytest

from headgate.api.enqueue import EnqueueBody
from tests.contract.client import Client

PLAIN = {"kind": "t.k", "payload": "e30="}


async def job_of(client: Client, job_id: str) -> dict[str, Any]:
    answer = await client.get(f"/jobs/{job_id}?include_payload=true")
    assert answer.status == 200
    found: dict[str, Any] = answer.json()
    return found


async def test_every_field_arrives(client: Client) -> None:
    shown = {
        "id": "all-of-it",
        "kind": "email:welcome[de]",
        "schema_version": 3,
        "payload": "AP8=",
        "queue": "é/ü",
        "priority": -7,
        "partition_key": "acme",
        "rate_class": "mail",
        "weight": 9,
        "scheduled_at_ms": 253402300799999,
        "tags": ["a", "b"],
        "sticky_worker": "w-1",
        "max_attempts": 4,
    }
    hidden = {
        "unique_key": "a2V5",
        "unique_window_ms": 1000,
        "unique_replace": 0,
        "unique_debounce_ms": 0,
        "unique_exclude_kind": True,
        "pending": False,
        "retention_ms": 60_000,
    }
    assert set(shown) | set(hidden) == set(EnqueueBody.__struct_fields__)
    answer = await client.request("POST", "/jobs", json=shown | hidden)
    assert (answer.status, answer.json()) == (201, {"id": "all-of-it"})
    found = await job_of(client, "all-of-it")
    assert {name: found[name] for name in shown} == shown
    assert found["state"] == "scheduled"
    again = await client.request("POST", "/jobs", json={**PLAIN, **hidden, "kind": "t.other"})
    assert (again.status, again.json()["existing_id"]) == (409, "all-of-it")


async def test_zero_and_null_ask_for_the_default(client: Client) -> None:
    body = {**PLAIN, "id": "zeros", "schema_version": 0, "max_attempts": 0, "queue": "",
            "weight": None, "scheduled_at_ms": 0}  # fmt: skip
    assert (await client.request("POST", "/jobs", json=body)).status == 201
    found = await job_of(client, "zeros")
    assert found["schema_version"] == 1
    assert found["max_attempts"] == 25
    assert found["queue"] == "default"
    assert found["weight"] == 1
    assert found["scheduled_at_ms"] == found["enqueued_at_ms"]


async def test_a_pending_job_waits(client: Client) -> None:
    await client.request("POST", "/jobs", json={**PLAIN, "id": "held", "pending": True})
    assert (await job_of(client, "held"))["state"] == "pending"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight": 0, "unique_replace": 1, "payload": "!"}, "weight must be >= 1"),
        (
            {"unique_replace": 1, "payload": "!"},
            "unique_replace requires caller-supplied unique_key",
        ),
        ({"payload": "!", "unique_key": "!", "id": ""}, "payload must be base64"),
        ({"unique_key": "!", "id": "", "kind": ""}, "unique_key must be base64"),
        ({"id": "", "kind": ""}, "envelope id must not be empty"),
        ({"id": "counts"}, "envelope id is reserved: counts"),
        ({"scheduled_at_ms": -1}, "scheduled_at_ms must be >= 0"),
        ({"retention_ms": 2**62}, "retention_ms is too large"),
        ({"queue": "é" * 128}, "queue must be at most 255 bytes"),
    ],
)
async def test_what_is_refused_first(client: Client, change: dict[str, Any], message: str) -> None:
    answer = await client.request("POST", "/jobs", json={**PLAIN, **change})
    assert (answer.status, answer.json()) == (400, {"error": message})


async def test_one_key_makes_one_job_however_often_and_at_once(client: Client) -> None:
    answers = await asyncio.gather(
        *(client.request("POST", "/jobs", json=PLAIN, key="once") for _ in range(20))
    )
    assert {answer.status for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert sum("replayed" not in answer.json() for answer in answers) == 1
    other = await client.request("POST", "/jobs", json={**PLAIN, "payload": ""}, key="once")
    assert other.json() == {"id": answers[0].json()["id"], "replayed": True}
    assert len((await client.get("/jobs")).json()["jobs"]) == 1


async def test_without_a_key_of_its_own_a_job_waits_for_the_silence_of_the_requests(
    client: Client,
) -> None:
    job = {"kind": "t.k", "unique_debounce_ms": 60_000}
    first = await client.request("POST", "/jobs", json={**job, "payload": "MQ=="}, key="typing")
    assert (first.status, set(first.json())) == (201, {"id"})
    before = await job_of(client, first.json()["id"])
    assert before["state"] == "scheduled"
    again = await client.request(
        "POST", "/jobs", json={**job, "payload": "Mg==", "tags": ["new"]}, key="typing"
    )
    assert (again.status, again.json()) == (201, {**first.json(), "replayed": True})
    after = await job_of(client, first.json()["id"])
    assert (after["payload"], after["tags"]) == ("Mg==", ["new"])
    assert after["scheduled_at_ms"] >= before["scheduled_at_ms"]
    other = await client.request("POST", "/jobs", json={**job, "payload": "Mg=="}, key="other")
    assert other.json()["id"] != first.json()["id"]


async def test_a_key_of_the_callers_own_is_not_that_of_the_request(client: Client) -> None:
    keyed = {**PLAIN, "unique_key": "a2V5"}
    first = await client.request("POST", "/jobs", json=keyed, key="same")
    second = await client.request("POST", "/jobs", json=keyed, key="same")
    assert (first.status, second.status) == (201, 409)
    assert second.json() == {
        "error": "duplicate unique key",
        "existing_id": first.json()["id"],
        "replaced": False,
    }


async def test_text_that_looks_like_an_escape_stays_what_it_is(client: Client) -> None:
    # `\\u0000` in JSON is a backslash and five characters, and no NUL.
    body = rb'{"kind":"t.k","payload":"e30=","id":"back","partition_key":"\\u0000"}'
    answer = await client.request(
        "POST", "/jobs", body=body, headers=[("content-type", "application/json")]
    )
    assert answer.status == 201
    assert (await job_of(client, "back"))["partition_key"] == "\\u0000"
