"""Jobs as a client of the control API sees and makes them."""

from typing import Any

from tests.contract.client import Client

PLAIN = {"kind": "t.k", "payload": "e30="}


async def enqueue(client: Client, job_id: str, **fields: object) -> None:
    answer = await client.request("POST", "/jobs", json={**PLAIN, "id": job_id, **fields})
    assert answer.status == 201, answer


async def job_of(client: Client, job_id: str) -> dict[str, Any]:
    answer = await client.get(f"/jobs/{job_id}?include_payload=true")
    assert answer.status == 200
    found: dict[str, Any] = answer.json()
    return found
