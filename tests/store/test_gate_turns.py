"""The shortcut of one queue whose highest level is known: what it serves, and when it will not."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import Executable

from headgate.queries.gate.fast import fast
from headgate.queries.gate.turns import turns
from headgate.store.admissions import Call
from headgate.store.rotation import Rotation
from headgate.store.store import Store
from tests.store.backlog import LEASE_MS, admit, bucket, by, ceiling, fill, pause
from tests.store.rows import Observer

Hindrance = Callable[[Store, Observer], Awaitable[Any]]

HINDRANCES: dict[str, Hindrance] = {
    "a pause": lambda store, observer: pause(observer, "default"),
    "a ceiling": lambda store, observer: ceiling(observer, "default", 100),
    "a rate class": lambda store, observer: bucket(observer, "slow", 100),
    "two lanes of a partition": lambda store, observer: fill(
        store, 1, partition_key="b", rate_class="other"
    ),
    "a higher level": lambda store, observer: fill(store, 1, partition_key="c", priority=1),
    "jobs pinned to the worker": lambda store, observer: fill(store, 1, sticky_worker="worker"),
    "pinned jobs that come first": lambda store, observer: fill(
        store, 1, sticky_worker="worker", priority=1
    ),
}


class Undone(Exception):
    """Ends a transaction without a trace."""


async def claimed(
    store: Store, statement: Executable, capacity: int, behind: str | None = None
) -> list[str]:
    """The ids that a statement claims, which is undone; the cursor stands `behind` a partition."""
    rotation = Rotation()
    if behind is not None:
        rotation.begin("default", 0, behind)
    call = Call("worker", ["default"], capacity, LEASE_MS)
    parameters = call.parameters(**rotation.parameters(call.queues), **rotation.turn("default", 0))
    found: list[str] = []
    with suppress(Undone):
        async with store.gate._database.transaction() as session:
            found += [row["ulid"] for row in await session.fetch(statement, parameters)]
            raise Undone
    return sorted(found)


async def test_it_serves_what_the_general_one_would(store: Store) -> None:
    for key, jobs in {"a": 9, "b": 1, "c": 4, "d": 2, "e": 9}.items():
        await fill(store, jobs, partition_key=key)
    await fill(store, 5, partition_key="below", priority=-1)
    await fill(store, 5, partition_key="foreign", sticky_worker="somebody")
    for capacity in (1, 2, 3, 5, 6, 8, 11, 100):
        for behind in (None, "", "a", "bb", "e", "z"):
            served = await claimed(store, turns(), capacity, behind)
            assert served == await claimed(store, fast(), capacity, behind)
            assert len(served) >= min(capacity, 5)


@pytest.mark.parametrize("hindrance", HINDRANCES)
async def test_it_serves_nothing_where_something_else_decides(
    store: Store, observer: Observer, hindrance: str
) -> None:
    await fill(store, 5, partition_key="a")
    await fill(store, 5, partition_key="b", rate_class="slow")
    assert len(await claimed(store, turns(), 4)) == 4
    await HINDRANCES[hindrance](store, observer)
    assert await claimed(store, turns(), 4) == []


async def test_pinned_jobs_of_a_lower_level_wait(store: Store) -> None:
    await fill(store, 5)
    await fill(store, 5, sticky_worker="worker", priority=-1)
    assert len(await claimed(store, turns(), 4)) == 4


async def test_what_comes_in_with_a_higher_priority_is_served_next(store: Store) -> None:
    for key in "abc":
        await fill(store, 30, partition_key=key)
    for _ in range(4):
        await admit(store, 3)
    for pinned in ("", "worker"):
        await fill(store, 2, partition_key="b", priority=7, sticky_worker=pinned)
        assert by("priority", await admit(store, 3)) == {7: 2, 0: 1}
        assert by("priority", await admit(store, 3)) == {0: 3}
