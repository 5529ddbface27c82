"""A lifecycle key has one live holder, and is free as soon as there is none."""

import pytest

from headgate.model.envelope import Envelope
from headgate.model.errors import DuplicateJob
from headgate.model.lifecycle import DELETED, Destination, State
from headgate.store.store import Store
from tests.store.journeys import LIVE_STATES, TERMINAL_STATES, bring
from tests.store.rows import Observer, count_jobs, job_row


def keyed(key: bytes = b"k") -> Envelope:
    return Envelope(kind="mail", unique_key=key)


@pytest.mark.parametrize("state", LIVE_STATES)
async def test_a_live_holder_keeps_its_key(store: Store, observer: Observer, state: State) -> None:
    holder = await bring(store, observer, keyed(), state)
    before = await job_row(observer, holder)
    for batch in ([keyed()], [keyed(b"free"), keyed()]):
        with pytest.raises(DuplicateJob) as duplicate:
            await store.producer.enqueue(batch)
        assert (duplicate.value.existing_id, duplicate.value.replaced) == (holder, False)
    assert await job_row(observer, holder) == before
    assert await count_jobs(observer) == 1


@pytest.mark.parametrize("end", [*TERMINAL_STATES, DELETED])
async def test_bc_45_every_end_frees_the_key(
    store: Store, observer: Observer, end: Destination
) -> None:
    holder = await bring(store, observer, keyed(), end)
    [job] = await store.producer.enqueue([keyed()])
    assert job.id != holder
    assert await count_jobs(observer) == (1 if end == DELETED else 2)


async def test_an_empty_key_is_a_key_and_none_is_not(store: Store, observer: Observer) -> None:
    await store.producer.enqueue([Envelope(kind="mail"), Envelope(kind="mail"), keyed(b"")])
    with pytest.raises(DuplicateJob):
        await store.producer.enqueue([keyed(b"")])
    assert await count_jobs(observer) == 3


async def test_the_kind_is_the_scope_of_a_key(store: Store) -> None:
    await store.producer.enqueue([keyed()])
    await store.producer.enqueue([Envelope(kind="other", unique_key=b"k")])
    fleet_wide = Envelope(kind="mail", unique_key=b"k", unique_exclude_kind=True)
    [job] = await store.producer.enqueue([fleet_wide])
    with pytest.raises(DuplicateJob) as duplicate:
        await store.producer.enqueue(
            [Envelope(kind="other", unique_key=b"k", unique_exclude_kind=True)]
        )
    assert duplicate.value.existing_id == job.id


async def test_the_first_clash_of_a_batch_is_named(store: Store) -> None:
    [first] = await store.producer.enqueue([keyed(b"1")])
    [second] = await store.producer.enqueue([keyed(b"2")])
    with pytest.raises(DuplicateJob) as duplicate:
        await store.producer.enqueue([keyed(b"free"), keyed(b"2"), keyed(b"1")])
    assert duplicate.value.existing_id == second.id
    assert first.id != second.id


async def test_a_replay_of_the_holder_itself_is_no_clash(store: Store, observer: Observer) -> None:
    holder = Envelope(kind="mail", id="one", unique_key=b"k")
    await store.producer.enqueue([holder])
    [again] = await store.producer.enqueue([holder])
    assert again.id == "one"
    assert await count_jobs(observer) == 1
