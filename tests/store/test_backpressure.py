"""The intake limit of a queue: exact under concurrency, all or nothing for a batch."""

import asyncio
from typing import Any

import pytest

from headgate.model.envelope import Envelope
from headgate.model.errors import Backpressure
from headgate.model.job import Acknowledgement
from headgate.model.lifecycle import LIVE, Outcome, State
from headgate.store.store import Store
from tests.store.conftest import OpenStore
from tests.store.journeys import bring
from tests.store.rows import Observer, count_jobs, start


def in_queue(queue: str = "q", **fields: Any) -> Envelope:
    return Envelope(kind="mail", queue=queue, **fields)


async def limit(observer: Observer, limit: int | None, queue: str = "q") -> None:
    await observer.execute(
        "INSERT INTO headgate_enqueue_policy VALUES ($1, $2) ON CONFLICT (queue)"
        " DO UPDATE SET max_unfinished_jobs = excluded.max_unfinished_jobs",
        queue,
        limit,
    )


async def refusal(store: Store, *envelopes: Envelope) -> tuple[str, int, int, int]:
    with pytest.raises(Backpressure) as pressure:
        await store.producer.enqueue(envelopes)
    found = pressure.value
    return found.queue, found.limit, found.current, found.incoming


async def test_64_producers_share_25_places(open_store: OpenStore, observer: Observer) -> None:
    store = open_store(pool_size=64)
    await limit(observer, 25)
    results = await asyncio.gather(
        *(store.producer.enqueue([in_queue()]) for _ in range(64)), return_exceptions=True
    )
    refused = [result for result in results if isinstance(result, Backpressure)]
    assert len(results) - len(refused) == 25
    assert len(refused) == 39
    assert {(error.limit, error.current, error.incoming) for error in refused} == {(25, 25, 1)}
    assert await count_jobs(observer) == 25


async def test_a_fold_in_between_counts_nothing_twice(
    open_store: OpenStore, observer: Observer
) -> None:
    store = open_store(pool_size=16)
    await limit(observer, 25)

    async def fold() -> None:
        while True:
            await store.upkeep.fold_ledger(3)
            await asyncio.sleep(0)

    folding = [asyncio.create_task(fold()) for _ in range(2)]
    for _ in range(3):
        results = await asyncio.gather(
            *(store.producer.enqueue([in_queue()]) for _ in range(40)), return_exceptions=True
        )
        assert sum(not isinstance(result, BaseException) for result in results) == 25
        await observer.execute("DELETE FROM headgate_job")
    for task in folding:
        task.cancel()


async def test_a_batch_enters_whole_or_not_at_all(store: Store, observer: Observer) -> None:
    await limit(observer, 3)
    await store.producer.enqueue([in_queue(), in_queue()])
    assert await refusal(store, in_queue(), in_queue("free"), in_queue()) == ("q", 3, 2, 2)
    assert await count_jobs(observer) == 2
    await store.producer.enqueue([in_queue(), in_queue("free"), in_queue("free")])
    assert await refusal(store, in_queue()) == ("q", 3, 3, 1)


async def test_the_first_full_queue_by_name_is_reported(store: Store, observer: Observer) -> None:
    await limit(observer, 0, "b")
    await limit(observer, 1, "a")
    assert await refusal(store, in_queue("b"), in_queue("a"), in_queue("a")) == ("a", 1, 0, 2)
    assert await refusal(store, in_queue("b"), in_queue("a")) == ("b", 0, 0, 1)


async def test_a_limit_of_zero_closes_the_intake_and_none_opens_it(
    store: Store, observer: Observer
) -> None:
    await limit(observer, 0)
    assert await refusal(store, in_queue()) == ("q", 0, 0, 1)
    await limit(observer, None)
    await store.producer.enqueue([in_queue()] * 3)


async def test_a_limit_below_what_is_there_stops_growth(store: Store, observer: Observer) -> None:
    await store.producer.enqueue([in_queue()] * 3)
    await limit(observer, 1)
    assert await refusal(store, in_queue()) == ("q", 1, 3, 1)
    assert await count_jobs(observer) == 3


async def test_replays_take_no_place(store: Store, observer: Observer) -> None:
    await limit(observer, 1)
    await store.producer.enqueue([in_queue(id="one")])
    await store.producer.enqueue([in_queue(id="one")])
    assert await refusal(store, in_queue(id="one"), in_queue(id="two")) == ("q", 1, 1, 1)


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("folded", [False, True])
async def test_what_counts_is_what_is_unfinished(
    store: Store, observer: Observer, state: State, folded: bool
) -> None:
    await bring(store, observer, in_queue(), state)
    if folded:
        await store.upkeep.fold_ledger(1_000)
    await limit(observer, 1)
    if state in LIVE:
        assert await refusal(store, in_queue()) == ("q", 1, 1, 1)
    else:
        await store.producer.enqueue([in_queue()])


async def test_every_way_out_of_unfinished_gives_a_place_back(
    store: Store, observer: Observer
) -> None:
    await limit(observer, 1)
    for outcome in (Outcome.SUCCESS, Outcome.SKIP, Outcome.REVOKE, Outcome.UNDECODABLE):
        [job] = await store.producer.enqueue([in_queue()])
        [lease] = await start(observer, [job.id])
        assert await refusal(store, in_queue()) == ("q", 1, 1, 1)
        await store.leases.acknowledge([Acknowledgement(lease=lease, outcome=outcome)])
    await observer.execute("TRUNCATE headgate_job CASCADE")
    await store.producer.enqueue([in_queue()])
