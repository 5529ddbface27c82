"""What attempts leave with their jobs, as they wrote it and as it is read."""

from headgate.api.application import create_app
from headgate.api.config import ApiConfig
from headgate.model.artifacts import Steps
from headgate.model.job import Acknowledgement, Lease, Stored
from headgate.model.lifecycle import Outcome
from headgate.store.store import Store
from tests.contract.client import Client
from tests.contract.jobs import enqueue


async def started(client: Client, store: Store) -> Lease:
    await enqueue(client, "job", retention_ms=60_000)
    (claim,) = await store.gate.admit("worker", ["default"], 1, 60_000)
    return claim.lease


async def test_everything_that_was_written_is_read(client: Client, store: Store) -> None:
    lease = await started(client, store)
    output = await store.artifacts.write_output(lease, 2, b"\x00\xff")
    progress = await store.artifacts.write_progress(lease, 3, 10, "three")
    steps = Steps(
        completed_steps=["a", "b"],
        in_progress_step="c",
        cursor_step="c",
        cursor=b"17",
        schema_version=4,
        step_set_hash="h",
    )
    await store.artifacts.write_checkpoint(lease, steps)
    assert (await client.get("/jobs/job/output")).json() == {
        "schema_version": 2,
        "bytes": "AP8=",
        "fence": lease.fence,
        "updated_at_ms": output.updated_at_ms,
    }
    assert (await client.get("/jobs/job/progress")).json() == {
        "current": 3,
        "total": 10,
        "message": "three",
        "fence": lease.fence,
        "updated_at_ms": progress.updated_at_ms,
    }
    checkpoint = {
        "last_completed_step": "b",
        "completed_steps": ["a", "b"],
        "in_progress_step": "c",
        "cursor_step": "c",
        "cursor": "MTc=",
        "schema_version": 4,
        "step_set_hash": "h",
        "crashes_by_step": {},
    }
    assert (await client.get("/jobs/job/checkpoint")).json() == checkpoint
    assert (await client.get("/jobs/job/result")).json() == {"error": "no result for job"}
    done = Acknowledgement(lease=lease, outcome=Outcome.SUCCESS, result=Stored(3, b"done"))
    await store.leases.acknowledge([done])
    assert (await client.get("/jobs/job/result")).json() == {
        "schema_version": 3,
        "bytes": "ZG9uZQ==",
    }
    closed = Client(create_app(store, ApiConfig(payloads=False)))
    for subject in ("result", "output"):
        refused = await closed.get(f"/jobs/job/{subject}")
        assert (refused.status, refused.json()) == (403, {"error": "forbidden"})
    assert (await closed.get("/jobs/job/progress")).status == 200
    kept_back = (await closed.get("/jobs/job/checkpoint")).json()
    assert kept_back["cursor"] is None


async def test_ids_that_no_row_can_hold(client: Client) -> None:
    for subject, error in (
        ("result", "no result for job"),
        ("output", "no output for job"),
        ("progress", "no progress for job"),
        ("checkpoint", "no such job"),
        ("admission", "no such job"),
    ):
        answer = await client.get(f"/jobs/a%00b/{subject}")
        assert (answer.status, answer.json()) == (404, {"error": error})
