"""Queues beyond the shared cases: what is set is what is read, and how a queue ends."""

from typing import Any
from urllib.parse import quote

import pytest

from headgate.store.store import Store
from tests.contract.client import Client
from tests.contract.jobs import enqueue


async def queue(client: Client, name: str) -> dict[str, Any]:
    (found,) = (await client.get(f"/queues?queue={quote(name)}")).json()
    return dict(found)


@pytest.mark.parametrize(
    ("weight", "status", "answer"),
    [
        (0, 400, {"error": "weight must be >= 1"}),
        (2**31, 400, {"error": "weight is too large"}),
        (2**32, 422, {"error": "invalid request body"}),
        (2**31 - 1, 200, None),
    ],
)
async def test_weights(client: Client, weight: int, status: int, answer: Any) -> None:
    put = await client.request("PUT", "/queues/q", json={"weight": weight})
    assert (put.status, put.json() if put.body else None) == (status, answer)
    listed = (await client.get("/queues")).json()
    assert [each["weight"] for each in listed] == ([weight] if status == 200 else [])


async def test_a_limit_is_as_wide_as_its_column(client: Client) -> None:
    body = {"max_unfinished_jobs": 2**63 - 1}
    assert (await client.request("PUT", "/queues/q/enqueue-limit", json=body)).status == 200
    assert (await queue(client, "q"))["max_unfinished_jobs"] == 2**63 - 1
    for _ in range(2):
        gone = await client.request("DELETE", "/queues/q/enqueue-limit")
        assert (gone.status, gone.body) == (204, b"")
    assert (await queue(client, "q"))["max_unfinished_jobs"] is None


async def test_one_of_them_is_told_alone(client: Client) -> None:
    names = ["a", "a/b?c=d&e", "b"]
    for number, name in enumerate([*names, "a"]):
        await enqueue(client, f"job-{number}", queue=name)
    await client.request("POST", "/queues/b/pause")
    found = [await queue(client, name) for name in names]
    assert [each["queue"] for each in found] == names
    assert [each["unfinished_jobs"] for each in found] == [2, 1, 1]
    assert [each["paused"] for each in found] == [False, False, True]
    for name in ("nobody", "A", "a%", "", "a\0"):
        assert (await client.get(f"/queues?queue={quote(name)}")).json() == []


async def test_rows_that_cannot_be_are_not_begun(client: Client) -> None:
    long = "x" * 256
    for method, target, body in (
        ("POST", f"/queues/{long}/pause", None),
        ("POST", f"/queues/{long}/resume", None),
        ("PUT", f"/queues/{long}", {"weight": 1}),
        ("PUT", f"/queues/{long}/enqueue-limit", {"max_unfinished_jobs": 1}),
    ):
        answer = await client.request(method, target, json=body)
        assert (answer.status, answer.json()) == (400, {"error": "queue must be at most 255 bytes"})
    assert (await client.get("/queues")).json() == []


async def test_an_empty_queue_goes_at_once_known_or_not(client: Client) -> None:
    assert (await client.request("DELETE", "/queues/nobody")).status == 204
    await client.request("PUT", "/queues/q", json={"weight": 2})
    assert (await client.request("DELETE", "/queues/q?force=true")).status == 204
    assert (await client.get("/queues")).json() == []


async def test_a_deleted_queue_is_empty_and_open_in_the_end(client: Client, store: Store) -> None:
    await client.request("PUT", "/queues/q/enqueue-limit", json={"max_unfinished_jobs": 7})
    for name in ("one", "two"):
        await enqueue(client, name, queue="q")
    await enqueue(client, "held", queue="q", pending=True)
    begun = await client.request("DELETE", "/queues/q?force=true")
    assert begun.status == 202
    operation = begun.json()["operation_id"]
    again = await client.request("DELETE", "/queues/q?force=true")
    assert (again.status, again.json()) == (202, {"operation_id": operation})
    while await store.operations.run_pending(100):
        pass
    ended = (await client.get(f"/operations/{operation}")).json()
    assert (ended["status"], ended["affected"]) == ("completed", 3)
    (left,) = (await client.get("/queues")).json()
    assert (left["by_state"], left["unfinished_jobs"]) == ({}, 0)
    await enqueue(client, "three", queue="q")


async def test_paused_queues_hold_what_waits(client: Client) -> None:
    await enqueue(client, "one", queue="q")
    await enqueue(client, "later", queue="q", scheduled_at_ms=253402300799999)
    await client.request("POST", "/queues/q/pause")
    blocked = await client.get("/queues/q/blocked")
    assert blocked.json() == {
        "queue": "q",
        "waiting": 2,
        "reasons": {
            "queue_paused": 1,
            "schedule": 1,
            "quarantine": 0,
            "rate_class": 0,
            "concurrency_limit": 0,
            "sticky_worker": 0,
        },
        "live_workers": 0,
        "approximate": False,
    }
    nobody = (await client.get("/queues/a%00b/blocked")).json()
    assert (nobody["waiting"], nobody["queue"]) == (0, "a\0b")
    assert not any(nobody["reasons"].values())


async def test_history_is_bounded_by_its_numbers(client: Client) -> None:
    await enqueue(client, "one", queue="q")
    for query in ("", "?since_ms=-9223372036854775808", "?bucket_ms=9223372036854775807"):
        (bucket,) = (await client.get(f"/queues/q/history{query}")).json()
        assert (bucket["arrived"], bucket["completed"]) == (1, 0), query
    assert (await client.get("/queues/q/history?since_ms=9223372036854775807")).json() == []


async def test_partitions(client: Client) -> None:
    for number, key in enumerate(("b", "a", "b", "")):
        await enqueue(client, f"job-{number}", queue="q", partition_key=key)
    assert (await client.get("/partitions?queue=q")).json() == [
        {"partition_key": "", "deficit": 0, "waiting": 1},
        {"partition_key": "a", "deficit": 0, "waiting": 1},
        {"partition_key": "b", "deficit": 0, "waiting": 2},
    ]
    assert (await client.get("/partitions?queue=a%00b")).json() == []
    missing = await client.get("/partitions?limit=0")
    assert (missing.status, missing.json()) == (400, {"error": "missing query parameter `queue`"})
