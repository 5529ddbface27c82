"""What a client learns of itself and of the installation in a few small answers."""

from itertools import pairwise
from typing import Any

import pytest

from headgate.api.application import create_app
from headgate.api.config import ApiConfig
from headgate.model.access import AccessToken, Role, hash_token
from headgate.store.store import Store
from tests.contract.client import Client
from tests.contract.job_states import put_into
from tests.contract.jobs import enqueue

HOUR_MS = 3_600_000


async def session(store: Store, config: ApiConfig, token: str = "") -> Any:
    headers = [("authorization", f"Bearer {token}")] if token else []
    return (await Client(create_app(store, config)).get("/session", headers=headers)).json()


async def test_where_nobody_is_asked_everything_is_allowed(store: Store) -> None:
    assert await session(store, ApiConfig()) == {
        "identity": "",
        "roles": ["viewer", "producer", "operator", "admin"],
        "read_only": False,
        "payloads": True,
        "reveals": False,
        "workflows": True,
    }
    assert (await session(store, ApiConfig(read_only=True)))["read_only"]
    assert not (await session(store, ApiConfig(payloads=False)))["payloads"]


@pytest.mark.parametrize(
    ("role", "roles"),
    [
        (Role.VIEWER, ["viewer"]),
        (Role.PRODUCER, ["producer"]),
        (Role.OPERATOR, ["viewer", "producer", "operator"]),
        (Role.ADMIN, ["viewer", "producer", "operator", "admin"]),
    ],
)
async def test_each_role_hears_what_it_may(store: Store, role: Role, roles: list[str]) -> None:
    token = AccessToken(token_hash=hash_token(b"secret"), identity="ada", role=role)
    found = await session(store, ApiConfig(tokens=(token,)), "secret")
    assert (found["identity"], found["roles"]) == ("ada", roles)
    assert found["payloads"] is (role is Role.ADMIN)


async def test_dead_letters_are_counted_from_a_time_on(
    client: Client, store: Store, headgate_database: str
) -> None:
    assert (await client.get("/dead-letters")).json() == {"count": 0, "approximate": False}
    for job_id, state in (("a", "archived"), ("b", "undecodable"), ("c", "cancelled")):
        await enqueue(client, job_id, retention_ms=HOUR_MS if job_id == "b" else 0)
        await put_into(headgate_database, job_id, state, ended_ms=500_000)
    assert (await client.get("/dead-letters")).json()["count"] == 2
    assert (await client.get("/dead-letters?since_ms=500000")).json()["count"] == 2
    assert (await client.get("/dead-letters?since_ms=500001")).json()["count"] == 0


async def test_what_a_job_has_left(client: Client, headgate_database: str) -> None:
    assert (await client.get("/jobs/x/artifacts")).status == 404
    await enqueue(client, "x")
    nothing = {"output_bytes": None, "progress": None, "result_bytes": None}
    assert (await client.get("/jobs/x/artifacts")).json() == nothing


async def test_the_history_of_all_queues_is_their_sum(client: Client, store: Store) -> None:
    for number, queue in enumerate(("a", "a", "b")):
        await enqueue(client, f"job-{number}", queue=queue)
    found = (await client.get("/history")).json()
    assert sum(each["arrived"] for each in found) == 3
    while await store.upkeep.fold_ledger(100):
        pass
    assert (await client.get("/history")).json() == found
    refused = await client.get("/history?bucket_ms=59999")
    assert refused.status == 400


async def test_ticks_are_told_before_there_is_a_schedule(client: Client) -> None:
    ticks = (await client.get("/ticks?spec=@every:60000&count=3")).json()["ticks"]
    assert len(ticks) == 3
    assert [later - tick for tick, later in pairwise(ticks)] == [60_000, 60_000]
    assert all(tick % 60_000 == 0 for tick in ticks)
    for query, error in (
        ("", "missing query parameter `spec`"),
        ("?spec=x", "bad cron `x`: want 5 fields, or 6 with seconds"),
        ("?spec=*+*+*+*+*&count=0", "count must be between 1 and 100"),
        ("?spec=*+*+*+*+*&count=101", "count must be between 1 and 100"),
        ("?spec=%00", "spec must not contain NUL"),
    ):
        answer = await client.get(f"/ticks{query}")
        assert (answer.status, answer.json()) == (400, {"error": error})


async def test_one_schedule_is_read_paused_and_resumed(client: Client) -> None:
    assert (await client.get("/periodic/s")).json() == {"error": "no such schedule"}
    body = {"kind": "t.k", "spec": "@every:3600000", "payload": "e30="}
    await client.request("PUT", "/periodic/s", json=body)
    found = (await client.get("/periodic/s")).json()
    assert "payload" not in found
    assert [found] == (await client.get("/periodic")).json()
    assert (await client.get("/periodic/s?include_payload=true")).json()["payload"] == "e30="
    for verb, paused in (("pause", True), ("pause", True), ("resume", False)):
        assert (await client.request("POST", f"/periodic/s/{verb}")).status == 204
        assert (await client.get("/periodic/s")).json() == {**found, "paused": paused}
    for verb in ("pause", "resume"):
        answer = await client.request("POST", f"/periodic/nobody/{verb}")
        assert (answer.status, answer.json()) == (404, {"error": "not found: schedule nobody"})


async def test_operations_are_listed_unfinished_first(client: Client) -> None:
    ids = []
    for dry_run in (True, False, True):
        answer = await client.request(
            "POST",
            "/jobs/bulk",
            json={"action": "cancel", "selector": {"queue": "q"}, "dry_run": dry_run},
        )
        ids.append(answer.json()["id"])
    found = (await client.get("/operations")).json()
    assert found[0]["id"] == ids[1]
    assert {each["id"] for each in found} == set(ids)
    assert found[0]["selector"] == {"queue": "q"}
    assert (found[0]["action"], found[0]["finished_at_ms"]) == ("cancel", None)
    assert all(each["finished_at_ms"] for each in found[1:])
