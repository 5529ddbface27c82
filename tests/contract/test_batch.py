"""POST /jobs/batch: all or none, and which job is in the way."""

from typing import Any

import pytest
from sqlalchemy import insert

from headgate.model.identity import fingerprint
from headgate.store.store import Store
from headgate.tables import quarantine
from tests.contract.client import Answer, Client
from tests.contract.jobs import PLAIN, enqueue, job_of


def job(**fields: object) -> dict[str, Any]:
    return {**PLAIN, **fields}


async def send(client: Client, *jobs: Any, key: str = "") -> Answer:
    return await client.request("POST", "/jobs/batch", json={"jobs": jobs}, key=key)


async def ids(client: Client) -> set[str]:
    return {each["id"] for each in (await client.get("/jobs?limit=200")).json()["jobs"]}


async def test_ids_come_back_in_the_order_of_the_jobs(client: Client) -> None:
    await enqueue(client, "known", queue="q")
    answer = await send(
        client, job(id="b"), job(), job(id="known", queue="q"), job(id="a", tags=["x"])
    )
    assert answer.status == 201
    assert set(answer.json()) == {"ids"}
    first, generated, replayed, last = answer.json()["ids"]
    assert (first, replayed, last) == ("b", "known", "a")
    assert await ids(client) == {"b", generated, "known", "a"}
    assert (await job_of(client, "a"))["tags"] == ["x"]


async def test_a_thousand_jobs_of_megabytes(client: Client) -> None:
    jobs = [job(payload="A" * 8_000) for _ in range(1_000)]
    answer = await send(client, *jobs)
    assert answer.status == 201
    assert len(set(answer.json()["ids"])) == 1_000


async def test_how_many(client: Client) -> None:
    for jobs, text in (
        ([], "enqueue batch must contain at least 1 job"),
        ([job()] * 1_001, "enqueue batch must contain at most 1000 jobs"),
    ):
        answer = await send(client, *jobs)
        assert (answer.status, answer.json()) == (400, {"error": text})
    body = b'{"jobs":[' + b" " * 16_777_216
    headers = [("content-type", "application/json")]
    answer = await client.request("POST", "/jobs/batch", body=body, headers=headers)
    assert (answer.status, answer.json()) == (
        413,
        {"error": "request body exceeds 16777216 bytes"},
    )


@pytest.mark.parametrize(
    ("bad", "status", "error"),
    [
        ({"payload": "!"}, 400, {"error": "payload must be base64"}),
        ({"weight": 0}, 400, {"error": "weight must be >= 1"}),
        ({"queue": "a\0"}, 400, {"error": "queue must not contain NUL"}),
        ({"id": "bulk"}, 400, {"error": "envelope id is reserved: bulk"}),
        ({"priority": 2**31}, 422, {"error": "invalid request body"}),
        ({"tags": [1]}, 422, {"error": "invalid request body"}),
        ({"kind": None}, 422, {"error": "invalid request body"}),
        (
            {"unique_key": "a2V5", "unique_replace": 1},
            400,
            {"error": "unique replacement and debounce require a single-job enqueue"},
        ),
        (
            {"unique_key": "a2V5", "unique_debounce_ms": 5},
            400,
            {"error": "unique replacement and debounce require a single-job enqueue"},
        ),
        (
            {"unique_debounce_ms": 5},
            400,
            {"error": "unique_debounce_ms requires lifecycle unique_key"},
        ),
        ({"id": "known"}, 409, {"error": "id conflict: job known"}),
        (
            {"unique_key": "aGVsZA=="},
            409,
            {"error": "duplicate unique key", "existing_id": "holder", "replaced": False},
        ),
        (
            {"payload": "YmFk"},
            423,
            {
                "error": "fingerprint is quarantined",
                "fingerprint": fingerprint("t.k", b"bad"),
            },
        ),
        (
            {"queue": "full"},
            429,
            {
                "error": "enqueue backpressure",
                "queue": "full",
                "limit": 0,
                "current": 0,
                "incoming": 1,
            },
        ),
    ],
)
async def test_which_job_is_in_the_way(
    client: Client, store: Store, bad: dict[str, Any], status: int, error: dict[str, Any]
) -> None:
    await enqueue(client, "known", queue="elsewhere")
    await enqueue(client, "holder", unique_key="aGVsZA==")
    await client.request("PUT", "/queues/full/enqueue-limit", json={"max_unfinished_jobs": 0})
    await store.database.fetch(
        insert(quarantine).values(
            fingerprint=fingerprint("t.k", b"bad"),
            kind="t.k",
            crash_count=3,
            quarantined_at_ms=1,
            reason="x",
        )
    )
    before = await ids(client)
    answer = await send(client, job(), job(id="two"), job(**bad), job())
    assert (answer.status, answer.json()) == (status, {**error, "index": 2})
    assert await ids(client) == before


async def test_what_is_wrong_between_the_jobs_is_told_of_the_second(client: Client) -> None:
    twice = await send(client, job(), job(id="same"), job(id="same"))
    assert (twice.status, twice.json()) == (409, {"error": "id conflict: job same", "index": 2})
    keyed = await send(
        client, job(id="one", unique_key="a2V5"), job(), job(id="two", unique_key="a2V5")
    )
    assert (keyed.status, keyed.json()) == (
        409,
        {"error": "duplicate unique key", "existing_id": "one", "replaced": False, "index": 2},
    )
    await client.request("PUT", "/queues/q/enqueue-limit", json={"max_unfinished_jobs": 2})
    many = await send(client, *(job(queue=queue) for queue in ("q", "", "q", "q", "q")))
    assert (many.status, many.json()["index"]) == (429, 3)
    assert await ids(client) == set()


async def test_a_field_that_is_missing_is_named_with_its_job(client: Client) -> None:
    missing = await send(client, job(), {"kind": "t.k"})
    assert (missing.status, missing.json()) == (
        422,
        {"error": "missing field `payload`", "index": 1},
    )
    for body, error in (
        ({}, "missing field `jobs`"),
        ({"jobs": None}, "invalid request body"),
        ({"jobs": {}}, "invalid request body"),
    ):
        answer = await client.request("POST", "/jobs/batch", json=body)
        assert (answer.status, answer.json()) == (422, {"error": error})


async def test_a_single_job_is_never_numbered(client: Client) -> None:
    for bad in ({"payload": "!"}, {"tags": [1]}, {"queue": "a\0"}):
        answer = await client.request("POST", "/jobs", json=job(**bad))
        assert set(answer.json()) == {"error"}
