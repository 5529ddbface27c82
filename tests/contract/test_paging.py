"""Every list in pages: each entry once, the cursor in a header, the same bounds."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy import insert

from headgate.api.paging import PageQuery
from headgate.api.table import OPERATIONS
from headgate.model.job import WorkerBeat
from headgate.store.store import Store
from headgate.tables import operation, quarantine
from tests.contract.client import Client
from tests.contract.jobs import enqueue

NAMES = [f"n{number}" for number in range(5)]


async def make_queues(client: Client, store: Store) -> None:
    for name in NAMES:
        await client.request("PUT", f"/queues/{name}", json={"weight": 1})


async def make_partitions(client: Client, store: Store) -> None:
    for name in NAMES:
        await enqueue(client, name, queue="q", partition_key=name)


async def make_rate_classes(client: Client, store: Store) -> None:
    for name in NAMES:
        terms = {"limit": 1, "window_ms": 1}
        await client.request("PUT", f"/rate-classes/{name}", json=terms)


async def make_limits(client: Client, store: Store) -> None:
    for name in NAMES:
        terms = {"queue": name, "max_concurrent": 1, "on_saturated": "queue"}
        await client.request("PUT", f"/concurrency-limits/{name}", json=terms)


async def make_schedules(client: Client, store: Store) -> None:
    for name in NAMES:
        await client.request("PUT", f"/periodic/{name}", json={"kind": "k", "spec": "@every:1000"})


async def make_workers(client: Client, store: Store) -> None:
    for name in NAMES:
        await store.workers.heartbeat(
            WorkerBeat(
                worker_id=name,
                host="h",
                pid=1,
                queues=("q",),
                concurrency=1,
                inflight=0,
                polls=0,
                empty_polls=0,
            )
        )


async def make_quarantine(client: Client, store: Store) -> None:
    for name in NAMES:
        await store.database.fetch(
            insert(quarantine).values(
                fingerprint=name, kind="k", crash_count=3, quarantined_at_ms=1, reason="x"
            )
        )


async def make_operations(client: Client, store: Store) -> None:
    for place, name in enumerate(reversed(NAMES)):
        await store.database.fetch(
            insert(operation).values(
                id=name, action="delete", selector='{"queue": "q"}', created_at_ms=place
            )
        )


LISTS: dict[str, tuple[str, Callable[[Client, Store], Awaitable[None]]]] = {
    "/queues": ("queue", make_queues),
    "/backlog": ("queue", make_queues),
    "/partitions?queue=q": ("partition_key", make_partitions),
    "/rate-classes": ("name", make_rate_classes),
    "/concurrency-limits": ("name", make_limits),
    "/periodic": ("id", make_schedules),
    "/workers": ("worker_id", make_workers),
    "/quarantine": ("fingerprint", make_quarantine),
    "/operations": ("id", make_operations),
}


def test_no_list_is_forgotten() -> None:
    paged = {
        each.path.removeprefix("/api/v1")
        for each in OPERATIONS
        if each.query_type is not None and issubclass(each.query_type, PageQuery)
    }
    assert {target.partition("?")[0] for target in LISTS} == paged


@pytest.mark.parametrize("target", LISTS)
async def test_pages_walk_every_entry_once(client: Client, store: Store, target: str) -> None:
    name, make = LISTS[target]
    joint = "&" if "?" in target else "?"
    await make(client, store)
    seen: list[Any] = []
    cursor: str | None = "0"
    while cursor is not None:
        answer = await client.get(f"{target}{joint}limit=2&cursor={cursor}")
        assert answer.status == 200
        assert len(answer.json()) <= 2
        seen += [each[name] for each in answer.json()]
        cursor = answer.headers.get("x-next-cursor")
    assert sorted(seen) == NAMES
    whole = await client.get(target)
    assert [each[name] for each in whole.json()] == seen
    assert "x-next-cursor" not in whole.headers
    for beyond in (5, 2**31, 2**64 - 1):
        answer = await client.get(f"{target}{joint}cursor={beyond}")
        assert (answer.json(), answer.headers.get("x-next-cursor")) == ([], None)


@pytest.mark.parametrize("target", LISTS)
async def test_bounds_of_a_page(client: Client, target: str) -> None:
    joint = "&" if "?" in target else "?"
    for limit in (0, 201, 2**64 - 1):
        answer = await client.get(f"{target}{joint}limit={limit}")
        assert (answer.status, answer.json()) == (
            400,
            {"error": "limit must be between 1 and 200"},
        )
    for name in ("limit", "cursor"):
        for value in ("", "x", "-1", "1.0", "18446744073709551616"):
            answer = await client.get(f"{target}{joint}{name}={value}")
            assert (answer.status, answer.json()) == (
                400,
                {"error": f"invalid query parameter `{name}`"},
            )
