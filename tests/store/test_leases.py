"""The right to report: job, lease and fence together, of a job that runs; once."""

import asyncio
import random
from typing import Any

import msgspec
import pytest

from headgate.model.envelope import Envelope
from headgate.model.errors import InvalidRequest
from headgate.model.job import Acknowledgement, Lease, Stored
from headgate.model.lifecycle import Outcome, State
from headgate.store.store import Store
from tests.store.conftest import OpenStore
from tests.store.journeys import bring
from tests.store.rows import (
    HOUR_MS,
    Observer,
    assert_lanes,
    count_jobs,
    deadlocks,
    job_row,
    now_ms,
    start,
    state_of,
)
from tests.store.waiting import until


async def attempts(store: Store, observer: Observer, count: int, **fields: Any) -> list[Lease]:
    jobs = await store.producer.enqueue([Envelope(kind="mail", **fields) for _ in range(count)])
    return await start(observer, [job.id for job in jobs])


def reports(leases: list[Lease], outcome: Outcome) -> list[Acknowledgement]:
    delay_ms = 1 if outcome is Outcome.SNOOZE else None
    return [Acknowledgement(lease=lease, outcome=outcome, delay_ms=delay_ms) for lease in leases]


@pytest.mark.parametrize("outcome", Outcome)
@pytest.mark.parametrize("retention_ms", [0, HOUR_MS])
async def test_another_lease_changes_nothing(
    store: Store, observer: Observer, outcome: Outcome, retention_ms: int
) -> None:
    [lease] = await attempts(store, observer, 1, retention_ms=retention_ms)
    before = await job_row(observer, lease.job_id)
    others = [
        msgspec.structs.replace(lease, fence=lease.fence + 1),
        msgspec.structs.replace(lease, fence=lease.fence - 1),
        msgspec.structs.replace(lease, lease_id="other"),
        msgspec.structs.replace(lease, job_id="other"),
    ]
    settlements = await store.leases.acknowledge(reports(others, outcome))
    assert [settlement.state for settlement in settlements] == [None] * 4
    assert [settlement.job_id for settlement in settlements] == [other.job_id for other in others]
    assert await job_row(observer, lease.job_id) == before
    assert await store.leases.renew(others, HOUR_MS) == [other.job_id for other in others]
    assert await job_row(observer, lease.job_id) == before


@pytest.mark.parametrize("state", [state for state in State if state is not State.RUNNING])
async def test_a_job_that_does_not_run_has_no_holder(
    store: Store, observer: Observer, state: State
) -> None:
    job_id = await bring(store, observer, Envelope(kind="mail"), state)
    before = await job_row(observer, job_id)
    assert before is not None
    lease = Lease(job_id, "lease", before["fence"])
    for outcome in Outcome:
        [settlement] = await store.leases.acknowledge(reports([lease], outcome))
        assert settlement.state is None
    assert await store.leases.renew([lease], HOUR_MS) == [job_id]
    assert await job_row(observer, job_id) == before


async def test_a_true_lease_beside_false_ones_of_the_same_job(
    store: Store, observer: Observer
) -> None:
    [job] = await store.producer.enqueue([Envelope(kind="mail")])
    for outcome in (Outcome.RATE_LIMITED, Outcome.SUCCESS):
        [lease] = await start(observer, [job.id], lease_id=f"for {outcome}")
        false = msgspec.structs.replace(lease, lease_id="other")
        settlements = await store.leases.acknowledge(reports([false, lease, false], outcome))
        assert [settlement.state is None for settlement in settlements] == [True, False, True]
    assert await count_jobs(observer) == 0


@pytest.mark.parametrize("first", Outcome)
@pytest.mark.parametrize("second", Outcome)
async def test_of_two_reports_on_one_lease_the_first_counts(
    store: Store, observer: Observer, first: Outcome, second: Outcome
) -> None:
    [alone, twice] = await attempts(store, observer, 2, retention_ms=HOUR_MS)
    [expected] = await store.leases.acknowledge(reports([alone], first))
    settlements = await store.leases.acknowledge(
        [*reports([twice], first), *reports([twice], second)]
    )
    assert [settlement.state for settlement in settlements] == [expected.state, None]


async def test_bc_32_a_row_removed_by_hand_is_a_lost_lease(
    store: Store, observer: Observer
) -> None:
    gone, there = await attempts(store, observer, 2)
    await observer.execute("DELETE FROM headgate_job WHERE ulid = $1", gone.job_id)
    assert await store.leases.renew([gone, there], HOUR_MS) == [gone.job_id]
    settlements = await store.leases.acknowledge(reports([gone, there], Outcome.SUCCESS))
    assert [settlement.state for settlement in settlements] == [None, "deleted"]


async def test_a_mixed_batch_of_500(store: Store, observer: Observer) -> None:
    leases = await attempts(store, observer, 500, retention_ms=HOUR_MS)
    outcomes = [random.choice(list(Outcome)) for _ in leases]
    lost = set(random.sample(range(500), 50))
    batch = []
    for position, (lease, outcome) in enumerate(zip(leases, outcomes, strict=True)):
        held = msgspec.structs.replace(lease, fence=9) if position in lost else lease
        [report] = reports([held], outcome)
        if outcome is Outcome.SUCCESS and position % 2:
            report = msgspec.structs.replace(report, result=Stored(1, b"%d" % position))
        batch.append(report)
    settlements = await store.leases.acknowledge(batch)
    states = {
        Outcome.SUCCESS: "completed",
        Outcome.RETRY: "retryable",
        Outcome.SKIP: "archived",
        Outcome.REVOKE: "deleted",
        Outcome.SNOOZE: "scheduled",
        Outcome.RATE_LIMITED: "available",
        Outcome.UNDECODABLE: "undecodable",
    }
    expected = [
        None if position in lost else states[outcome] for position, outcome in enumerate(outcomes)
    ]
    assert [settlement.state for settlement in settlements] == expected
    rows = await observer.fetch("SELECT ulid, state, result_bytes FROM headgate_job")
    found = {row["ulid"]: (row["state"], row["result_bytes"]) for row in rows}
    for position, (lease, state) in enumerate(zip(leases, expected, strict=True)):
        if state == "deleted":
            assert lease.job_id not in found
            continue
        published = state == "completed" and position % 2
        blob = b"%d" % position if published else None
        assert found[lease.job_id] == (state or "running", blob)
    await assert_lanes(observer)


async def test_completions_are_counted_once_each(store: Store, observer: Observer) -> None:
    leases = await attempts(store, observer, 6)
    await store.leases.acknowledge(reports(leases[:2], Outcome.SUCCESS))
    await store.leases.acknowledge(reports(leases, Outcome.SUCCESS))
    await store.leases.acknowledge(reports(leases, Outcome.SUCCESS))
    assert await observer.fetchval("SELECT sum(completed) FROM headgate_ledger") == 6


async def test_no_report_no_statement(open_store: OpenStore) -> None:
    away = open_store(dsn="postgresql://nobody@127.0.0.1:1/nothing")
    assert await away.leases.acknowledge([]) == []
    assert await away.leases.renew([], 1) == []


async def test_a_renewal_pushes_the_expiry(store: Store, observer: Observer) -> None:
    held, lost, also = await attempts(store, observer, 3)
    await observer.execute(
        "UPDATE headgate_job SET state = 'available', lease_id = NULL WHERE ulid = $1", lost.job_id
    )
    before = await now_ms(observer)
    assert await store.leases.renew([held, lost, also], 5_000) == [lost.job_id]
    for lease in (held, also):
        row = await job_row(observer, lease.job_id)
        assert row is not None
        assert before + 5_000 <= row["lease_expires_at_ms"] <= await now_ms(observer) + 5_000
    row = await job_row(observer, lost.job_id)
    assert row is not None
    assert row["lease_expires_at_ms"] != before + 5_000


@pytest.mark.parametrize("lease_ms", [0, -1])
async def test_a_lease_has_a_length(store: Store, lease_ms: int) -> None:
    with pytest.raises(InvalidRequest, match="lease must be >= 1ms"):
        await store.leases.renew([Lease("one", "lease", 1)], lease_ms)


async def test_a_renewal_touches_no_index(store: Store, observer: Observer) -> None:
    # A few rows leave room on their page for the new versions, which is all that HOT needs then.
    leases = await attempts(store, observer, 3)
    for _ in range(4):
        assert await store.leases.renew(leases, HOUR_MS) == []
    await store.close()
    updates, hot_updates = await reported_updates(observer, at_least=15)
    # Only the starts changed indexed columns.
    assert (updates, hot_updates) == (15, 12)


async def reported_updates(observer: Observer, *, at_least: int) -> tuple[int, int]:
    """Updates of jobs and how many were heap-only, once so many were reported."""
    row = await until(
        lambda: observer.fetchrow(
            "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables"
            " WHERE relname = 'headgate_job' AND n_tup_upd >= $1",
            at_least,
        )
    )
    assert row is not None
    return row["n_tup_upd"], row["n_tup_hot_upd"]


async def test_a_renewal_and_the_report_of_the_same_jobs_never_deadlock(
    store: Store, observer: Observer
) -> None:
    for _ in range(3):
        jobs = await store.producer.enqueue(
            [Envelope(kind="mail", retention_ms=n % 2) for n in range(300)]
        )
        leases = await start(observer, [job.id for job in jobs])
        shuffled = random.sample(leases, len(leases))
        answers, losses = await asyncio.gather(
            store.leases.acknowledge(reports(shuffled, Outcome.SUCCESS)),
            asyncio.gather(*(store.leases.renew(leases[::-1], HOUR_MS) for _ in range(3))),
        )
        assert all(answer.state for answer in answers)
        assert {lost for each in losses for lost in each} <= {lease.job_id for lease in leases}
    await store.close()
    assert await deadlocks(observer) == 0


async def test_a_locked_row_is_neither_renewed_nor_lost(store: Store, observer: Observer) -> None:
    locked, free = await attempts(store, observer, 2)
    before = await job_row(observer, locked.job_id)
    async with observer.transaction():
        await observer.execute("SELECT FROM headgate_job WHERE ulid = $1 FOR UPDATE", locked.job_id)
        assert await asyncio.wait_for(store.leases.renew([locked, free], 1), 5) == []
    assert await job_row(observer, locked.job_id) == before
    row = await job_row(observer, free.job_id)
    assert row is not None
    assert row["lease_expires_at_ms"] < await now_ms(observer) + HOUR_MS / 2
    assert await state_of(observer, free.job_id) == "running"
