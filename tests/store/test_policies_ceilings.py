"""Concurrency limits: what is put is what is read, and a queue has one at most."""

import asyncio
from typing import Any

import pytest

from headgate.model.errors import Conflict, InvalidRequest, NotFound
from headgate.model.page import PageRequest
from headgate.model.policy import ConcurrencyLimit
from headgate.store.store import Store
from tests.store.backlog import admit, fill
from tests.store.races import blocked, somebody
from tests.store.rows import Observer


def limit(name: str = "one", **terms: Any) -> ConcurrencyLimit:
    given = {"queue": "q", "max_concurrent": 2, "on_saturated": "queue", **terms}
    return ConcurrencyLimit(name=name, **given)


async def limits(store: Store) -> list[ConcurrencyLimit]:
    return (await store.policies.concurrency_limits(PageRequest())).items


@pytest.mark.parametrize("strategy", ["queue", "discard", "cancel_incoming", "cancel_running"])
async def test_put_and_read(store: Store, strategy: str) -> None:
    await store.policies.put_concurrency_limit(limit(max_concurrent=9))
    wanted = limit(on_saturated=strategy, max_concurrent=2**63 - 1)
    await store.policies.put_concurrency_limit(wanted)
    assert await limits(store) == [wanted]
    assert await store.policies.concurrency_limit("one") == wanted


@pytest.mark.parametrize(
    ("terms", "text"),
    [
        (
            {"queue": "", "max_concurrent": 0, "on_saturated": "x"},
            "name and queue must not be empty",
        ),
        ({"name": ""}, "name and queue must not be empty"),
        ({"max_concurrent": 0, "on_saturated": "x"}, "max_concurrent must be >= 1"),
        ({"on_saturated": "x", "max_concurrent": 2**63}, "unknown saturation strategy `x`"),
        ({"max_concurrent": 2**63}, "max_concurrent is too large"),
        ({"queue": "a\0"}, "queue must not contain NUL"),
        ({"name": "a\0"}, "name must not contain NUL"),
        ({"queue": "x" * 256}, "queue must be at most 255 bytes"),
    ],
)
async def test_limits_that_cannot_be(store: Store, terms: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await store.policies.put_concurrency_limit(limit(**terms))
    assert refused.value.message == text
    assert await limits(store) == []


async def test_a_queue_has_one_limit(store: Store) -> None:
    await store.policies.put_concurrency_limit(limit())
    await store.policies.put_concurrency_limit(limit("two", queue="other"))
    for name in ("two", "three"):
        with pytest.raises(Conflict) as refused:
            await store.policies.put_concurrency_limit(limit(name))
        assert refused.value.message == "queue q already has the concurrency limit one"
    assert [each.queue for each in await limits(store)] == ["q", "other"]
    await store.policies.put_concurrency_limit(limit(queue="free"))
    await store.policies.put_concurrency_limit(limit("two"))
    assert [each.queue for each in await limits(store)] == ["free", "q"]


async def test_of_two_who_limit_a_queue_at_once_one_is_told(
    store: Store, observer: Observer, headgate_database: str
) -> None:
    async with store.database.transaction() as session:
        await store.within(session).policies.put_concurrency_limit(limit())
        putting = asyncio.create_task(store.policies.put_concurrency_limit(limit("two")))
        await blocked(observer)
    with pytest.raises(Conflict, match="already has the concurrency limit one"):
        await putting


async def test_pages_by_name(store: Store) -> None:
    for name in ("c", "a", "b"):
        await store.policies.put_concurrency_limit(limit(name, queue=name))
    first = await store.policies.concurrency_limits(PageRequest(2))
    assert ([each.name for each in first.items], first.next_cursor) == (["a", "b"], 2)
    rest = await store.policies.concurrency_limits(PageRequest(2, 2))
    assert ([each.name for each in rest.items], rest.next_cursor) == (["c"], None)
    with pytest.raises(InvalidRequest, match="limit must be between 1 and 200"):
        await store.policies.concurrency_limits(PageRequest(0))


async def test_deleting_a_limit(store: Store) -> None:
    await store.policies.put_concurrency_limit(limit())
    await fill(store, 5, queue="q")
    assert len(await admit(store, 5, "q")) == 2
    await store.policies.delete_concurrency_limit("one")
    assert len(await admit(store, 5, "q")) == 3
    for missing in (store.policies.delete_concurrency_limit, store.policies.concurrency_limit):
        with pytest.raises(NotFound) as refused:
            await missing("one")
        assert str(refused.value) == "not found: concurrency limit one"
    with pytest.raises(NotFound):
        await store.policies.concurrency_limit("\0")


async def test_a_limit_needs_no_more_than_the_jobs_that_wait(
    store: Store, headgate_database: str
) -> None:
    """Partitions that were there before the limit are held to it at once."""
    await fill(store, 3, queue="q", partition_key="a")
    await fill(store, 3, queue="q", partition_key="b")
    await store.policies.put_concurrency_limit(limit(max_concurrent=1))
    assert sorted(claim.partition_key for claim in await admit(store, 6, "q")) == ["a", "b"]
    async with somebody(headgate_database):
        assert await admit(store, 6, "q") == []
