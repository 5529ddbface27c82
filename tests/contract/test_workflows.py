"""Workflows over the control API."""

from headgate.client.workflow import Workflow
from headgate.model.envelope import Envelope
from headgate.store.store import Store
from tests.contract.client import Client
from tests.contract.job_states import put_into


async def begin(store: Store, name: str = "w") -> None:
    workflow = Workflow(name)
    first = workflow.add(Envelope(kind="import:extract"), name="extract")
    workflow.add(Envelope(kind="import:load"), name="load", after=first)
    await store.producer.enqueue(workflow.jobs())


async def test_the_list_is_paged(client: Client, store: Store) -> None:
    nothing = await client.get("/workflows")
    assert nothing.json() == {"workflows": [], "next_cursor": None}
    for name in ("one", "two"):
        await begin(store, name)
    first = (await client.get("/workflows?limit=1")).json()
    (shown,) = first["workflows"]
    assert shown == {
        "workflow_id": "two",
        "coordinator_job_id": "two:coordinator",
        "state": "available",
        "enqueued_at_ms": shown["enqueued_at_ms"],
        "scheduled_at_ms": shown["scheduled_at_ms"],
    }
    rest = (await client.get(f"/workflows?cursor={first['next_cursor']}")).json()
    assert [each["workflow_id"] for each in rest["workflows"]] == ["one"]
    for cursor in ("", "x", "1.5"):
        refused = await client.get(f"/workflows?cursor={cursor}")
        assert (refused.status, refused.json()) == (400, {"error": "bad cursor"})


async def test_one_is_shown_with_its_nodes(client: Client, store: Store) -> None:
    await begin(store)
    answer = await client.get("/workflows/w")
    found = answer.json()
    assert {name: found[name] for name in ("revision", "generation", "failed")} == {
        "revision": 1,
        "generation": 0,
        "failed": False,
    }
    assert found["nodes"][1] == {
        "name": "load",
        "job_id": "w:load",
        "kind": "task",
        "job_kind": "import:load",
        "state": "pending",
        "failed": False,
        "stopped": False,
        "dependencies": ["extract"],
        "dependents": [],
        "attempt": 0,
        "claimed_at_ms": None,
        "finalized_at_ms": None,
    }
    assert found["nodes"][0]["dependents"] == ["load"]
    for part in ("w:load", "w:coordinator"):
        assert (await client.get(f"/jobs/{part}")).json()["workflow_id"] == "w"
    unknown = await client.get("/workflows/nobody")
    assert (unknown.status, unknown.json()) == (404, {"error": "no such workflow"})


async def test_a_failure_is_retried_by_the_revision_that_was_seen(
    client: Client, store: Store, headgate_database: str
) -> None:
    await begin(store)
    refused = await client.request("POST", "/workflows/w/retry", json={"expected_revision": 1})
    assert (refused.status, refused.json()) == (400, {"error": "workflow w has no failed node"})
    await put_into(headgate_database, "w:extract", "archived")
    await store.workflows.advance("w:coordinator")
    body = {"expected_revision": 1}
    assert (await client.request("POST", "/workflows/w/retry", json=body, key="k")).status == 204
    again = await client.request("POST", "/workflows/w/retry", json=body, key="k")
    assert (again.status, again.headers["idempotency-replayed"]) == (204, "true")
    late = await client.request("POST", "/workflows/w/retry", json=body)
    assert (late.status, late.json()) == (
        409,
        {"error": "revision conflict: workflow w has revision 2, not 1"},
    )
    unknown = await client.request("POST", "/workflows/nobody/retry", json=body)
    assert (unknown.status, unknown.json()) == (404, {"error": "not found: workflow nobody"})


async def test_a_cancelled_one_has_ended(client: Client, store: Store) -> None:
    await begin(store)
    assert (await client.request("POST", "/workflows/w/cancel")).status == 204
    states = {n["name"]: n["state"] for n in (await client.get("/workflows/w")).json()["nodes"]}
    assert states == {"extract": "cancelled", "load": "cancelled"}
    again = await client.request("POST", "/workflows/w/cancel")
    assert (again.status, again.json()) == (400, {"error": "workflow w has ended"})
