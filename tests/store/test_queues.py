"""The page of queues: what it says is what the rows say, and which queues it knows."""

from typing import Any

import pytest

from headgate.model.backlog import time_to_drain_ms
from headgate.model.envelope import Envelope
from headgate.model.errors import InvalidRequest
from headgate.model.lifecycle import State
from headgate.model.page import PageRequest
from headgate.model.queue import QueueBacklog, QueueStatistics, QuietGroups, StateCounts
from headgate.store.queues import Queues
from headgate.store.store import Store
from tests.store.backlog import fill
from tests.store.journeys import LIVE_STATES, bring
from tests.store.recording import Recorder
from tests.store.rows import Observer, now_ms

ALL = PageRequest()
MINUTE_MS = 60_000

_COUNTER = """
INSERT INTO headgate_queue_counter (queue, bucket_ms, arrived, completed) VALUES ($1, $2, $3, $4)
"""


async def queues(store: Store) -> dict[str, QueueStatistics]:
    """The queues by name, of which the shorter page must tell the same."""
    page, backlogs = await store.queues.page(ALL), await store.queues.backlogs(ALL)
    assert page.next_cursor is backlogs.next_cursor is None
    assert [told(each) for each in backlogs.items] == [told(each) for each in page.items]
    return {each.queue: each for each in page.items}


def told(each: QueueBacklog) -> tuple[Any, ...]:
    """What does not change from one moment to the next."""
    return (
        each.queue, each.unfinished_jobs, each.by_state, each.paused, each.count_is_approximate,
    )  # fmt: skip


async def fold(store: Store) -> None:
    while await store.upkeep.fold_ledger(1_000):
        pass


async def test_there_are_no_queues_at_first(store: Store) -> None:
    assert await queues(store) == {}
    assert await store.counts() == StateCounts({}, False)
    assert await store.counts("nobody's") == StateCounts({}, False)


async def test_a_queue_that_only_has_a_weight(store: Store) -> None:
    await store.queues.set_weight("q", 3)
    assert await queues(store) == {
        "q": QueueStatistics(
            queue="q",
            weight=3,
            unfinished_jobs=0,
            max_unfinished_jobs=None,
            by_state={},
            arrival_rate=0.0,
            drain_rate=0.0,
            time_to_drain_ms=None,
            oldest_available_ms=None,
            paused=False,
            memory_bytes=None,
            count_is_approximate=False,
            quiet_groups=QuietGroups(
                arrival_rate=0.0,
                drain_rate=0.0,
                time_to_drain_ms=None,
                oldest_available_ms=None,
                noisy_partitions=0,
                approximate=False,
            ),
        )
    }


@pytest.mark.parametrize("folded", [False, True])
async def test_counts_by_state(store: Store, observer: Observer, folded: bool) -> None:
    for number, state in enumerate(State):
        for _ in range(number + 1):
            await bring(store, observer, Envelope(kind="mail", queue="q"), state)
    await bring(store, observer, Envelope(kind="mail", queue="other"), State.RUNNING)
    if folded:
        await fold(store)
    expected = {state.value: number + 1 for number, state in enumerate(State)}
    found = await queues(store)
    assert found["q"].by_state == expected
    assert found["q"].unfinished_jobs == sum(expected[state] for state in LIVE_STATES)
    assert found["other"].by_state == {"running": 1}
    assert await store.counts("q") == StateCounts(expected, False)
    expected["running"] += 1
    assert await store.counts() == StateCounts(expected, False)


async def test_counts_half_folded(store: Store, observer: Observer) -> None:
    await fill(store, 3, queue="q")
    await fold(store)
    await fill(store, 2, queue="q")
    await observer.execute(
        "DELETE FROM headgate_job WHERE id IN (SELECT id FROM headgate_job LIMIT 4)"
    )
    assert await store.counts("q") == StateCounts({"available": 1}, False)
    assert (await queues(store))["q"].by_state == {"available": 1}


async def test_too_much_to_fold_is_approximate(store: Store, observer: Observer) -> None:
    await fill(store, 1, queue="q")
    await observer.execute(
        "INSERT INTO headgate_ledger (queue, partition_key, state, n, bucket_ms)"
        " SELECT 'q', '', 'available', 1, 0 FROM generate_series(1, 49999)"
    )
    assert await store.counts("q") == StateCounts({"available": 50_000}, False)
    await observer.execute(
        "INSERT INTO headgate_ledger (queue, partition_key, state, n, bucket_ms)"
        " VALUES ('other', '', 'available', 1, 0)"
    )
    assert (await store.counts("q")).approximate
    assert (await queues(store))["q"].count_is_approximate


async def test_a_queue_whose_jobs_are_gone_is_listed_for_an_hour(
    store: Store, observer: Observer
) -> None:
    await fill(store, 2, queue="q")
    await observer.execute("DELETE FROM headgate_job")
    for _ in range(2):
        listed = await queues(store)
        assert [(name, each.by_state) for name, each in listed.items()] == [("q", {})]
        assert [each.queue for each in (await store.fleet.cluster()).queues] == ["q"]
        await fold(store)
    await observer.execute("UPDATE headgate_queue_counter SET bucket_ms = bucket_ms - 59 * 60000")
    assert list(await queues(store)) == ["q"]
    await observer.execute("UPDATE headgate_queue_counter SET bucket_ms = bucket_ms - 2 * 60000")
    assert await queues(store) == {}
    assert (await store.fleet.cluster()).queues == []
    assert await store.counts() == StateCounts({}, False)


async def test_every_queue_is_on_one_page(store: Store) -> None:
    names = sorted(f"q{number}" for number in range(7))
    for name in names[:3]:
        await store.queues.pause(name)
    for name in names[2:5]:
        await store.queues.set_enqueue_limit(name, 9)
    for name in names[4:]:
        await fill(store, 1, queue=name)
    for limit in (1, 2, 3, 6, 7, 8):
        seen: list[str] = []
        cursor: int | None = 0
        while cursor is not None:
            page = await store.queues.page(PageRequest(limit, cursor))
            seen += [each.queue for each in page.items]
            assert page.next_cursor is None or page.next_cursor == len(seen)
            assert page.next_cursor is not None or len(seen) == 7
            cursor = page.next_cursor
        assert seen == names


@pytest.mark.parametrize("cursor", [1, 2**31, 2**64 - 1])
async def test_past_the_last_page(store: Store, cursor: int) -> None:
    await store.queues.pause("q")
    page = await store.queues.page(PageRequest(200, cursor))
    assert (page.items, page.next_cursor) == ([], None)


@pytest.mark.parametrize("limit", [0, 201, -1])
async def test_what_a_page_cannot_be(store: Store, limit: int) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await store.queues.page(PageRequest(limit))
    assert refused.value.message == "limit must be between 1 and 200"


async def test_names_are_in_the_order_of_their_bytes(store: Store) -> None:
    names = ["B", "a", "é", "Z", "_", "a/b?c#d%20", ""]
    for name in names:
        await store.queues.pause(name)
    assert list(await queues(store)) == sorted(names, key=str.encode)


@pytest.mark.parametrize("folded", [False, True])
async def test_rates_over_the_time_that_was_counted(
    store: Store, observer: Observer, folded: bool
) -> None:
    await bring(store, observer, Envelope(kind="mail", queue="q"), State.COMPLETED)
    await fill(store, 9, queue="q")
    if folded:
        await fold(store)
    minute = await now_ms(observer) // MINUTE_MS * MINUTE_MS
    await observer.execute(_COUNTER, "q", minute - MINUTE_MS, 110, 779)
    await observer.execute(_COUNTER, "q", minute - 2 * MINUTE_MS, 10_000, 10_000)
    before = await now_ms(observer)
    queue = (await queues(store))["q"]
    (backlog,) = (await store.queues.backlogs(ALL)).items
    after = await now_ms(observer)
    if after // MINUTE_MS * MINUTE_MS != minute:
        pytest.skip("a minute began meanwhile")
    elapsed = [(at - minute + MINUTE_MS) / 1000 for at in (before, after)]
    for each in (queue, backlog):
        assert 120 / elapsed[1] <= each.arrival_rate <= 120 / elapsed[0]
        assert 780 / elapsed[1] <= each.drain_rate <= 780 / elapsed[0]
        assert each.time_to_drain_ms == time_to_drain_ms(9, each.arrival_rate, each.drain_rate)
    assert queue.time_to_drain_ms is not None
    assert queue.quiet_groups.arrival_rate == queue.arrival_rate
    assert queue.quiet_groups.drain_rate == queue.drain_rate
    assert queue.quiet_groups.time_to_drain_ms == queue.time_to_drain_ms


async def test_the_age_of_the_oldest(store: Store, observer: Observer) -> None:
    now = await now_ms(observer)
    await fill(store, 2, queue="q", partition_key="a", scheduled_at_ms=now - 5_000)
    for age_ms in (1_000, 60_000, 30_000):
        await fill(store, 1, queue="q", partition_key="b", scheduled_at_ms=now - age_ms)
    await fill(store, 1, queue="q", partition_key="c", scheduled_at_ms=now + 60_000)
    await fill(store, 1, queue="q", pending=True)
    await fill(store, 1, queue="later", scheduled_at_ms=now + 60_000)
    found = await queues(store)
    spent = await now_ms(observer) - now
    age = found["q"].oldest_available_ms
    assert age is not None
    assert 60_000 <= age <= 60_000 + spent
    assert found["q"].quiet_groups.oldest_available_ms == age
    assert found["later"].oldest_available_ms is None
    await observer.execute("UPDATE headgate_job SET scheduled_at_ms = 4000000000000")
    assert (await queues(store))["q"].oldest_available_ms == 0


async def test_one_statement_whatever_the_number_of_queues(store: Store) -> None:
    for count in (1, 200):
        await store.producer.enqueue(
            [
                Envelope(kind="mail", queue=f"q{number:03}", partition_key=f"p{number % 7}")
                for number in range(count)
                for _ in range(3)
            ]
        )
        for ask in (Queues.page, Queues.backlogs):
            recorder = Recorder(store.database)
            page = await ask(Queues(recorder), ALL)
            assert len(page.items) == count
            assert len(recorder.asked) == 1
