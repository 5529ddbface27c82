"""Actions on jobs: who may do what from where, one by one, by a list, by a selection."""

from typing import Any

import pytest

from headgate.model.lifecycle import State
from headgate.store.store import Store
from tests.contract.client import Client
from tests.contract.job_states import put_into
from tests.contract.jobs import enqueue, job_of

RETRY = "operator_retry is only defined from archived, cancelled, or undecodable; job job is {}"
CANCEL = "operator_cancel is not defined from {}"
PROMOTE = "operator_promote is defined only from pending"
RESCHEDULE = "reschedule is only defined for scheduled/retryable; job job is {}"
LIVE = {"pending", "scheduled", "available", "running", "retryable"}
NOT_RUNNING = {state.value for state in State} - {"running"}

ACTIONS: dict[str, tuple[str, str, dict[str, Any] | None, set[str], str]] = {
    "retry": ("POST", "/retry", None, {"archived", "cancelled", "undecodable"}, RETRY),
    "cancel": ("POST", "/cancel", None, LIVE, CANCEL),
    "promote": ("POST", "/promote", None, {"pending"}, PROMOTE),
    "reschedule": (
        "POST", "/reschedule", {"scheduled_at_ms": 7}, {"scheduled", "retryable"}, RESCHEDULE,
    ),
    "payload": (
        "PUT", "/payload", {"payload": "AA=="}, NOT_RUNNING, "cannot edit a running job's payload",
    ),
    "delete": ("DELETE", "", None, NOT_RUNNING, "cannot delete a running job; cancel it first"),
}  # fmt: skip


@pytest.mark.parametrize("action", ACTIONS)
async def test_every_action_from_every_state(
    client: Client, headgate_database: str, action: str
) -> None:
    method, path, body, defined, text = ACTIONS[action]
    for state in State:
        await enqueue(client, "job")
        await put_into(headgate_database, "job", state)
        answer = await client.request(method, f"/jobs/job{path}", json=body)
        if state in defined:
            assert (answer.status, answer.body) == (204, b""), state
        else:
            assert (answer.status, answer.json()) == (400, {"error": text.format(state)})
            assert (await job_of(client, "job"))["state"] == state
        if action != "delete" or state == "running":
            await put_into(headgate_database, "job", "completed")
            assert (await client.request("DELETE", "/jobs/job")).status == 204
    unknown = await client.request(method, f"/jobs/job{path}", json=body)
    error = "no such job" if action == "payload" else "not found: job job"
    assert (unknown.status, unknown.json()) == (404, {"error": error})


async def test_what_is_checked_before_the_job_is_looked_up(client: Client) -> None:
    for target, body, error in (
        ("/reschedule", {"scheduled_at_ms": -1}, "scheduled_at_ms must be >= 0"),
        ("/reschedule", {"scheduled_at_ms": 2**60}, "scheduled_at_ms is too large"),
        ("/payload", {"payload": "A"}, "payload must be base64"),
        ("/payload", {"payload": "", "schema_version": 2**31}, "schema_version is too large"),
        ("/payload", {"payload": "A" * 1_398_104}, "payload must be at most 1048576 bytes"),
    ):
        method = "PUT" if target == "/payload" else "POST"
        answer = await client.request(method, f"/jobs/nobody{target}", json=body)
        assert (answer.status, answer.json()) == (400, {"error": error})


async def test_a_key_that_was_taken_meanwhile(client: Client, headgate_database: str) -> None:
    await enqueue(client, "old", unique_key="a2V5")
    await put_into(headgate_database, "old", "archived")
    await enqueue(client, "new", unique_key="a2V5")
    taken = {"error": "duplicate unique key", "existing_id": "new", "replaced": False}
    answer = await client.request("POST", "/jobs/old/retry")
    assert (answer.status, answer.json()) == (409, taken)
    listed = await client.request(
        "POST", "/jobs/actions", json={"action": "retry", "ids": ["old", "new"]}
    )
    reasons = {each["id"]: each["reason"] for each in listed.json()["failed"]}
    assert reasons["old"] == "duplicate unique key; existing job new"


async def test_a_list_of_ids_in_its_order(client: Client) -> None:
    for name in ("b", "a"):
        await enqueue(client, name)
    body = {"action": "cancel", "ids": ["b", "nobody", "a", "b"]}
    answer = await client.request("POST", "/jobs/actions", json=body)
    assert answer.json() == {
        "succeeded": ["b", "a"],
        "failed": [
            {"id": "nobody", "reason": "not found: job nobody"},
            {"id": "b", "reason": "operator_cancel is not defined from cancelled"},
        ],
    }
    too_many = {"action": "explode", "ids": ["x"] * 1_001}
    answer = await client.request("POST", "/jobs/actions", json=too_many)
    assert (answer.status, answer.json()) == (400, {"error": "at most 1000 ids per call"})
    odd = {"action": "retry", "ids": ["a\0"]}
    answer = await client.request("POST", "/jobs/actions", json=odd)
    assert (answer.status, answer.json()) == (400, {"error": "ids must not contain NUL"})


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"action": "archive", "selector": {}}, "operator_archive is not in the transition table"),
        ({"action": "explode", "selector": {}}, "empty selector is rejected"),
        ({"action": "explode", "selector": {"queue": ""}}, "unknown action `explode`"),
        ({"action": "retry", "selector": {"older_than_ms": -1}}, "older_than_ms must be >= 0"),
        ({"action": "retry", "selector": {"older_than_ms": 2**62}}, "older_than_ms is too large"),
        ({"action": "retry", "selector": {"kind": "\0"}}, "kind must not contain NUL"),
    ],
)
async def test_selections_that_cannot_be(client: Client, body: dict[str, Any], error: str) -> None:
    answer = await client.request("POST", "/jobs/bulk", json=body)
    assert (answer.status, answer.json()) == (400, {"error": error})


async def test_an_operation_from_its_beginning_to_its_end(client: Client, store: Store) -> None:
    for name in ("one", "two"):
        await enqueue(client, name, queue="q")
    await enqueue(client, "held", queue="q", pending=True)
    begun = await client.request(
        "POST", "/jobs/bulk", json={"action": "cancel", "selector": {"queue": "q"}}
    )
    operation = begun.json()
    assert (begun.status, operation) == (
        202,
        {
            "id": operation["id"],
            "status": "pending",
            "affected": 0,
            "total_estimated": 3,
            "dry_run": False,
            "error": None,
        },
    )
    while await store.operations.run_pending(100):
        pass
    ended = await client.get(f"/operations/{operation['id']}")
    assert ended.json() == {**operation, "status": "completed", "affected": 3}
    counts = await client.get("/jobs/counts?queue=q")
    assert counts.json() == {"counts": {"cancelled": 3}, "approximate": False}
    over = await client.request("DELETE", f"/operations/{operation['id']}")
    assert (over.status, over.json()) == (
        400,
        {"error": f"operation {operation['id']} is already completed"},
    )


async def test_an_operation_that_is_cancelled(client: Client, store: Store) -> None:
    await enqueue(client, "one", queue="q")
    begun = await client.request(
        "POST", "/jobs/bulk", json={"action": "delete", "selector": {"queue": "q"}}
    )
    target = f"/operations/{begun.json()['id']}"
    cancelled = await client.request("DELETE", target)
    assert (cancelled.status, cancelled.json()) == (202, {**begun.json(), "status": "cancelled"})
    assert await store.operations.run_pending(100) == 0
    assert (await client.get(target)).json() == cancelled.json()
    assert (await client.get("/jobs/one")).status == 200
    again = await client.request("DELETE", target)
    assert again.json()["error"].endswith("is already cancelled")
    unknown = await client.request("DELETE", "/operations/nobody")
    assert (unknown.status, unknown.json()) == (404, {"error": "not found: operation nobody"})


async def test_counts(client: Client) -> None:
    assert (await client.get("/jobs/counts")).json() == {"counts": {}, "approximate": False}
    await enqueue(client, "one", queue="q")
    await enqueue(client, "two", queue="r", pending=True)
    whole = await client.get("/jobs/counts")
    assert whole.json()["counts"] == {"available": 1, "pending": 1}
    assert (await client.get("/jobs/counts?queue=r")).json()["counts"] == {"pending": 1}
    for nothing in ("", "a%00b", "nobody"):
        assert (await client.get(f"/jobs/counts?queue={nothing}")).json()["counts"] == {}
