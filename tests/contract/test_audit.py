"""The trail of mutations: what is written down, and who may read it."""

from typing import Final

import pytest

from headgate.api.application import create_app
from headgate.api.config import ApiConfig
from headgate.model.access import AccessToken, Role, hash_token
from headgate.store.store import Store
from tests.contract.client import Client, Header
from tests.contract.jobs import PLAIN, enqueue

ROUTE: Final = "/api/v1/queues/{queue}/pause"


def bearer(token: str) -> list[Header]:
    return [("authorization", f"Bearer {token}")]


@pytest.fixture
async def guarded(store: Store) -> Client:
    tokens = tuple(
        AccessToken(token_hash=hash_token(role.encode()), identity=f"the-{role}", role=role)
        for role in Role
    )
    return Client(create_app(store, ApiConfig(tokens=tokens)))


async def test_an_entry_says_who_did_what_to_what(guarded: Client) -> None:
    answer = await guarded.request(
        "POST", "/queues/a%2Fb/pause", key="k-1", headers=bearer("operator")
    )
    assert answer.status == 204
    page = await guarded.get("/audit", headers=bearer("admin"))
    (entry,) = page.json()["entries"]
    assert entry.pop("at_ms") > 1_700_000_000_000
    assert entry.pop("id") > 0
    assert entry == {
        "identity": "the-operator",
        "role": "operator",
        "method": "POST",
        "route": ROUTE,
        "target": "a/b",
        "idempotency_key": "k-1",
        "status": 204,
    }
    assert page.json()["next_cursor"] is None


async def test_refusals_for_good_are_written_down_and_others_are_not(
    guarded: Client, store: Store
) -> None:
    for path, token in (
        ("/jobs/nosuch/cancel", "operator"),
        ("/jobs/nosuch/cancel", "viewer"),
        ("/jobs/nosuch/cancel", "unknown"),
        ("/jobs/actions", "operator"),
    ):
        await guarded.request("POST", path, headers=bearer(token))
    entries = (await store.audit.page()).entries
    assert [(entry.target, entry.status) for entry in entries] == [("nosuch", 404)]


async def test_enqueues_are_not_written_down(client: Client, store: Store) -> None:
    await enqueue(client, "x")
    await client.request("POST", "/jobs/batch", json={"jobs": [PLAIN]})
    await client.request("PUT", "/periodic/s", json={"kind": "t.k", "spec": "@every:60000"})
    assert (await client.request("POST", "/periodic/s/run")).status == 202
    entries = (await store.audit.page()).entries
    assert [entry.route for entry in entries] == ["/api/v1/periodic/{id}"]


async def test_without_access_nobody_is_named(client: Client, store: Store) -> None:
    await client.request("POST", "/queues/q/pause")
    (entry,) = (await store.audit.page()).entries
    assert (entry.identity, entry.role) == ("", "")


async def test_it_is_read_page_by_page_newest_first(client: Client) -> None:
    for number in range(5):
        await client.request("POST", f"/queues/q{number}/pause")
    targets: list[str] = []
    cursor: int | None = None
    pages = 0
    while pages == 0 or cursor is not None:
        after = "" if cursor is None else f"&cursor={cursor}"
        page = (await client.get(f"/audit?limit=2{after}")).json()
        targets += [entry["target"] for entry in page["entries"]]
        cursor = page["next_cursor"]
        pages += 1
    assert (targets, pages) == (["q4", "q3", "q2", "q1", "q0"], 3)
    answer = await client.get("/audit?limit=0")
    assert answer.json() == {"error": "limit must be between 1 and 200"}
