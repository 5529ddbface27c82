"""A list of jobs, part by part: what cannot get in stands aside, and nothing gets in twice."""

import asyncio
from typing import Any

import asyncpg
import pytest

from headgate.model.envelope import Envelope
from headgate.model.errors import (
    Backpressure,
    Conflict,
    FingerprintQuarantined,
    IdConflict,
    InvalidRequest,
)
from headgate.store.importing import Listed
from headgate.store.joining import enqueue_in
from headgate.store.store import Store
from tests.store.backlog import quarantine, someone_waits
from tests.store.conftest import OpenStore
from tests.store.rows import Observer, assert_lanes, count_jobs


def listed(*envelopes: Envelope) -> list[Listed]:
    return [Listed(position, envelope) for position, envelope in enumerate(envelopes, 1)]


def job(**fields: Any) -> Envelope:
    return Envelope(kind="mail", **fields)


async def limit(observer: Observer, queue: str, most: int) -> None:
    await observer.execute("INSERT INTO headgate_enqueue_policy VALUES ($1, $2)", queue, most)


async def ids(observer: Observer) -> list[str]:
    return [
        row["ulid"] for row in await observer.fetch("SELECT ulid FROM headgate_job ORDER BY id")
    ]


async def test_what_stands_in_the_way_is_left_out(store: Store, observer: Observer) -> None:
    await store.producer.enqueue([job(id="holder", unique_key=b"held"), job(id="known")])
    await quarantine(observer, "bad")
    found = await store.imports.put_in(
        listed(
            job(id="a"),
            job(unique_key=b"held"),
            job(id="known"),
            job(id="known", payload=b"other"),
            job(fingerprint="bad", unique_key=b"fresh"),
            job(id="b", unique_key=b"fresh"),
            job(unique_key=b"fresh"),
            job(id="a"),
            job(id="a", queue="elsewhere"),
            job(id="c", unique_key=b"fresh", unique_exclude_kind=True),
        ),
        leave_out=True,
    )
    assert await ids(observer) == ["holder", "known", "a", "b", "c"]
    assert (found.done, found.enqueued, found.replayed, found.duplicates) == (10, 3, 2, 2)
    assert [(place, type(error)) for place, error in found.refused] == [
        (3, IdConflict),
        (4, FingerprintQuarantined),
        (8, IdConflict),
    ]
    assert found.stopped is None
    await assert_lanes(observer)


async def test_it_stops_at_the_first_that_cannot_get_in(store: Store, observer: Observer) -> None:
    await quarantine(observer, "bad")
    part = listed(job(id="a"), job(id="b", fingerprint="bad"), job(id="c"))
    found = await store.imports.put_in(part)
    assert (found.done, found.enqueued) == (1, 1)
    assert isinstance(found.stopped, FingerprintQuarantined)
    assert await ids(observer) == ["a"]


@pytest.mark.parametrize("leave_out", [False, True])
async def test_a_queue_is_filled_to_its_limit_and_no_further(
    store: Store, observer: Observer, leave_out: bool
) -> None:
    await limit(observer, "small", 3)
    await limit(observer, "tiny", 0)
    await store.producer.enqueue([job(queue="small", unique_key=b"held")])
    part = listed(
        job(queue="small", unique_key=b"held"),
        job(id="a", queue="small"),
        job(id="b"),
        job(id="c", queue="small"),
        job(id="d"),
        job(id="e", queue="small"),
        job(id="f", queue="tiny"),
        job(queue="small", unique_key=b"held"),
    )
    found = await store.imports.put_in(part, leave_out=leave_out)
    assert (await ids(observer))[1:] == ["a", "b", "c", "d"]
    assert (found.done, found.enqueued, found.duplicates) == (5, 4, 1)
    assert isinstance(found.stopped, Backpressure)
    assert found.stopped.queue == "small"
    found = await store.imports.put_in(part[5:], leave_out=leave_out)
    assert (found.done, found.enqueued, found.duplicates) == (0, 0, 0)


async def test_the_position_is_kept_with_the_jobs(store: Store, observer: Observer) -> None:
    part = [
        Listed(n, job(id=f"j{n}", unique_key=b"k" if n in (7, 900) else None)) for n in (7, 900)
    ]
    assert await store.imports.position("file") == 0
    found = await store.imports.put_in(part, key="file", after=3)
    assert (found.enqueued, found.duplicates) == (1, 1)
    assert await store.imports.position("file") == 900
    assert await store.imports.position("other file") == 0
    await store.imports.put_in([Listed(10_000, job())], key="file", after=900)
    assert await store.imports.position("file") == 10_000
    # What changed nothing may be done once more.
    await store.imports.put_in([Listed(10_001, job(unique_key=b"k"))], key="file", after=10_000)
    assert await store.imports.position("file") == 10_000
    with pytest.raises(InvalidRequest, match="key must not contain NUL"):
        await store.imports.position("a\0")


async def test_two_imports_of_one_list_do_not_mix(
    open_store: OpenStore, observer: Observer
) -> None:
    store = open_store()
    part = [Listed(n, job()) for n in range(1, 201)]
    results = await asyncio.gather(
        *(store.imports.put_in(part, key="file") for _ in range(8)), return_exceptions=True
    )
    assert sorted(type(result).__name__ for result in results) == ["Conflict"] * 7 + ["Imported"]
    with pytest.raises(Conflict, match="going on elsewhere"):
        await store.imports.put_in(part, key="file")
    assert await count_jobs(observer) == 200


async def test_a_key_that_is_taken_meanwhile_is_a_duplicate(
    store: Store, observer: Observer, headgate_database: str
) -> None:
    other = await asyncpg.connect(headgate_database)
    try:
        async with other.transaction():
            await enqueue_in(other, [job(id="theirs", unique_key=b"k")])
            part = listed(job(id="a"), job(unique_key=b"k"), job(id="b"))
            importing = asyncio.create_task(store.imports.put_in(part))
            await someone_waits(observer, other)
        found = await importing
    finally:
        await other.close()
    assert (found.done, found.enqueued, found.duplicates) == (3, 2, 1)
    assert sorted(await ids(observer)) == ["a", "b", "theirs"]


async def test_a_job_may_change_the_holder_of_its_key(store: Store, observer: Observer) -> None:
    await store.producer.enqueue([job(id="holder", unique_key=b"k", payload=b"old")])
    found = await store.imports.put_in(
        listed(job(unique_key=b"k", unique_replace=1, payload=b"new"))
    )
    assert (found.enqueued, found.duplicates) == (0, 1)
    assert await observer.fetchval("SELECT payload FROM headgate_job") == b"new"
