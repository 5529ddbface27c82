"""Rate classes and concurrency limits beyond the shared cases."""

from typing import Any

import pytest

from tests.contract.client import Client
from tests.contract.jobs import enqueue


async def test_one_rate_class(client: Client) -> None:
    terms = {"limit": 5, "window_ms": 60_000, "burst": 9}
    assert (await client.request("PUT", "/rate-classes/a%2Fb", json=terms)).status == 200
    for _ in range(2):
        await enqueue(client, f"job-{_}", rate_class="a/b")
    found = await client.get("/rate-classes/a%2Fb")
    assert found.json() == {
        "name": "a/b",
        "tokens_available": 9,
        "burst": 9,
        "limit_per_window": 5,
        "window_ms": 60_000,
        "jobs_waiting": 2,
        "paused": False,
    }
    gone = await client.request("DELETE", "/rate-classes/a%2Fb")
    assert (gone.status, gone.body) == (204, b"")
    for method in ("GET", "DELETE"):
        answer = await client.request(method, "/rate-classes/a%2Fb")
        assert (answer.status, answer.json()) == (404, {"error": "not found: rate class a/b"})
    explained = (await client.get("/jobs/job-0/admission?advice=true")).json()
    assert explained["admissible"]
    assert explained["advice"] == [
        "no live worker polls queue default",
        "rate class a/b does not exist, so nothing limits this job",
    ]


@pytest.mark.parametrize(
    ("terms", "status", "error"),
    [
        ({"limit": 2**61 + 1, "window_ms": 1}, 400, "limit is too large"),
        ({"limit": 1, "window_ms": 253402300800000}, 400, "window_ms is too large"),
        ({"limit": 1, "window_ms": 2, "burst": 2**62}, 400, "burst is too large"),
        ({"limit": 2**63, "window_ms": 1}, 422, "invalid request body"),
        ({"limit": 1, "window_ms": 1, "burst": 2**63}, 422, "invalid request body"),
        ({"limit": 1, "window_ms": -(2**63) - 1}, 422, "invalid request body"),
        ({"limit": None, "window_ms": 1}, 422, "invalid request body"),
        ({"window_ms": 1}, 422, "missing field `limit`"),
    ],
)
async def test_terms_of_a_rate_class(
    client: Client, terms: dict[str, Any], status: int, error: str
) -> None:
    answer = await client.request("PUT", "/rate-classes/c", json=terms)
    assert (answer.status, answer.json()) == (status, {"error": error})
    assert (await client.get("/rate-classes")).json() == []


async def test_the_widest_class_can_still_be_read(client: Client) -> None:
    for terms in ({"limit": 2**61, "window_ms": 1}, {"limit": 0, "window_ms": 253402300799999}):
        assert (await client.request("PUT", "/rate-classes/c", json=terms)).status == 200
        await enqueue(client, f"job-{terms['limit']}", rate_class="c", weight=2**31 - 1)
        assert (await client.get("/rate-classes")).status == 200
        assert (await client.get(f"/jobs/job-{terms['limit']}/admission")).status == 200
    explicit_null = {"limit": 3, "window_ms": 1, "burst": None}
    assert (await client.request("PUT", "/rate-classes/d", json=explicit_null)).status == 200
    assert (await client.get("/rate-classes/d")).json()["burst"] == 3


async def test_one_concurrency_limit(client: Client) -> None:
    terms = {"queue": "q", "max_concurrent": 2**63 - 1, "on_saturated": "discard"}
    assert (await client.request("PUT", "/concurrency-limits/one", json=terms)).status == 200
    found = await client.get("/concurrency-limits/one")
    assert found.json() == {"name": "one", **terms}
    other = await client.request("PUT", "/concurrency-limits/two", json=terms)
    assert (other.status, other.json()) == (
        409,
        {"error": "queue q already has the concurrency limit one"},
    )
    assert (await client.request("DELETE", "/concurrency-limits/one")).status == 204
    for method in ("GET", "DELETE"):
        answer = await client.request(method, "/concurrency-limits/one")
        assert (answer.status, answer.json()) == (
            404,
            {"error": "not found: concurrency limit one"},
        )
    assert (await client.request("PUT", "/concurrency-limits/two", json=terms)).status == 200
