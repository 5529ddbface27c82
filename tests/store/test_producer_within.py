"""Enqueue inside a transaction of the store: refusals leave it working, its end decides."""

import asyncio

import pytest

from headgate.model.envelope import Envelope
from headgate.model.errors import DuplicateJob, IdConflict
from headgate.model.periodic import ScheduleDefinition
from headgate.store.store import Store
from tests.store.races import blocked
from tests.store.rows import Observer, count_jobs, state_of


def job(job_id: str, **fields: object) -> Envelope:
    return Envelope(kind="t.k", id=job_id, **fields)  # type: ignore[arg-type] # as the test says


async def test_a_refusal_leaves_the_transaction_working(store: Store, observer: Observer) -> None:
    await store.producer.enqueue([job("holder", unique_key=b"k")])
    async with store.hot_path.transaction() as session:
        producer = store.within(session).producer
        with pytest.raises(DuplicateJob) as refused:
            await producer.enqueue([job("one"), job("two", unique_key=b"k")])
        assert refused.value.existing_id == "holder"
        with pytest.raises(IdConflict):
            await producer.enqueue([job("one"), job("holder", queue="other")])
        (enqueued,) = await producer.enqueue([job("three")])
        assert enqueued.id == "three"
        assert await count_jobs(observer) == 1
    assert await state_of(observer, "three") == "available"
    assert await count_jobs(observer) == 2


async def test_nothing_is_left_of_a_transaction_that_failed(
    store: Store, observer: Observer
) -> None:
    definition = ScheduleDefinition(id="s", kind="t.k", spec="@every:1000")

    async def fail_late() -> None:
        async with store.hot_path.transaction() as session:
            inside = store.within(session)
            await inside.producer.enqueue([job("one"), job("two")])
            await inside.schedules.put(definition)
            assert await inside.schedules.get("s") is not None
            raise LookupError

    with pytest.raises(LookupError):
        await fail_late()
    assert await count_jobs(observer) == 0
    assert await store.schedules.get("s") is None


async def test_a_race_for_a_key_is_told_to_the_one_that_comes_second(
    store: Store, observer: Observer
) -> None:
    async with store.hot_path.transaction() as session:
        await store.within(session).producer.enqueue([job("one", unique_key=b"k"), job("two")])

        async def compete() -> None:
            async with store.hot_path.transaction() as other:
                await store.within(other).producer.enqueue(
                    [job("three"), job("four", unique_key=b"k")]
                )

        competing = asyncio.create_task(compete())
        await blocked(observer)
    with pytest.raises(DuplicateJob) as refused:
        await competing
    assert refused.value.existing_id == "one"
    assert await count_jobs(observer) == 2
