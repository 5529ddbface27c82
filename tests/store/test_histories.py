"""Random histories over several sessions, against the transition table and the rules of keys.

After every step: no job is lost and none is there twice, fences only grow, the ledger counts what
is there, a key has one live holder, and whatever waits stands in a registered lane.
"""

import asyncio
import os
from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeVar

import asyncpg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from headgate.model.envelope import Envelope, prepare
from headgate.model.errors import (
    DuplicateJob,
    FingerprintQuarantined,
    InvalidRequest,
    NotFound,
    StoreError,
)
from headgate.model.identity import fingerprint
from headgate.model.job import Acknowledgement, Lease
from headgate.model.lifecycle import Event, Outcome, State, UndefinedTransition
from headgate.store.settings import StoreSettings
from headgate.store.store import Store
from tests.store.counts import assert_exact
from tests.store.expected import Expected, ExpectedJob
from tests.store.rows import HOUR_MS, assert_lanes

EXAMPLES = int(os.environ.get("HEADGATE_HISTORY_EXAMPLES", "30"))
SESSIONS = 3
QUEUES = ("q", "r")
PAYLOADS = (b"x", b"y", b"z")
FINGERPRINTS = [fingerprint("mail", payload) for payload in PAYLOADS]
# With many lanes a call may see only what is held back, and the next goes on behind it.
PATIENCE = 4

_CLEAR = """
TRUNCATE headgate_job, headgate_active_partition, headgate_inflight, headgate_queue_state,
  headgate_quarantine, headgate_ledger, headgate_queue_count, headgate_partition_count CASCADE
"""
_ROWS = """
SELECT ulid, state::text, attempt, crash_attempt, fence, lease_id, unique_key FROM headgate_job
"""
_KEYS_WITH_TWO = """
SELECT unique_key FROM headgate_job
WHERE unique_key IS NOT NULL AND state < 'completed' GROUP BY 1 HAVING count(*) > 1
"""

Answer = TypeVar("Answer")

envelopes = st.builds(
    Envelope,
    kind=st.just("mail"),
    queue=st.sampled_from(QUEUES),
    partition_key=st.sampled_from(("", "p")),
    payload=st.sampled_from(PAYLOADS),
    unique_key=st.sampled_from((None, None, b"a", b"b")),
    retention_ms=st.sampled_from((0, HOUR_MS)),
    max_attempts=st.sampled_from((1, 2, 25)),
    pending=st.sampled_from((False, False, False, True)),
)
delayed = st.builds(
    Envelope, kind=st.just("mail"), queue=st.sampled_from(QUEUES), delay_ms=st.just(HOUR_MS)
)
sessions = st.integers(0, SESSIONS - 1)
picks = st.lists(st.integers(0, 30), min_size=1, max_size=6)
outcomes = st.sampled_from(list(Outcome))
ACTIONS = {
    "promote": Event.OPERATOR_PROMOTE,
    "retry": Event.OPERATOR_RETRY,
    "cancel": Event.OPERATOR_CANCEL,
    "delete": Event.OPERATOR_DELETE,
}


class Installation:
    """Several stores on one database, and an observer."""

    def __init__(self, runner: asyncio.Runner, dsn: str) -> None:
        self.run = runner.run
        self.stores = [Store(StoreSettings(dsn=dsn)) for _ in range(SESSIONS)]
        self.observer: Any = self.run(asyncpg.connect(dsn))

    async def close(self) -> None:
        await self.observer.close()
        for store in self.stores:
            await store.close()


class Histories(RuleBasedStateMachine):
    def __init__(self, installation: Installation) -> None:
        super().__init__()
        self.installation = installation
        self.run = installation.run
        self.observer = installation.observer
        self.expected = Expected()
        # Every lease that was ever given out, the newest last.
        self.leases: list[Lease] = []

    def store(self, session: int) -> Store:
        return self.installation.stores[session]

    def picked(self, numbers: list[int]) -> list[Lease]:
        """Leases, by their distance from the newest."""
        return list(dict.fromkeys(self.leases[-1 - n % len(self.leases)] for n in numbers))

    def job_picked(self, number: int) -> str:
        return list(self.expected.jobs)[number % len(self.expected.jobs)]

    @initialize()
    def clear(self) -> None:
        self.run(self.observer.execute(_CLEAR))

    @rule(session=sessions, batch=st.lists(envelopes | delayed, min_size=1, max_size=4))
    def enqueue(self, session: int, batch: list[Envelope]) -> None:
        producer = self.store(session).producer
        try:
            prepared = prepare(batch)
            self.expected.judge(prepared)
        except (DuplicateJob, FingerprintQuarantined) as refusal:
            self.refused(producer.enqueue(batch), refusal)
            return
        jobs = self.run(producer.enqueue(batch))
        for envelope, job in zip(prepared, jobs, strict=True):
            envelope.id = job.id
        self.expected.take(prepared)

    @precondition(lambda self: self.expected.jobs)
    @rule(session=sessions, number=st.integers(0, 30))
    def replay(self, session: int, number: int) -> None:
        known = self.expected.jobs[self.job_picked(number)].envelope
        self.run(self.store(session).producer.enqueue([known]))

    @rule(session=sessions, capacity=st.integers(1, 8))
    def admit(self, session: int, capacity: int) -> None:
        for _ in range(PATIENCE):
            claims = self.run(
                self.store(session).gate.admit(f"w{session}", QUEUES, capacity, HOUR_MS)
            )
            assert len(claims) <= capacity
            capacity -= len(claims)
            for claim in claims:
                self.claimed(claim.lease)
            if not capacity:
                return
        assert not self.expected.admissible()

    def claimed(self, lease: Lease) -> None:
        assert lease.job_id in self.expected.admissible()
        self.expected.happen(lease.job_id, Event.ADMITTED)
        job = self.expected.jobs[lease.job_id]
        assert lease.fence > job.fence
        job.fence, job.lease = lease.fence, lease
        self.leases.append(lease)

    def holds(self, lease: Lease) -> bool:
        job = self.expected.jobs.get(lease.job_id)
        return job is not None and job.lease == lease

    @precondition(lambda self: self.leases)
    @rule(
        session=sessions,
        numbers=picks,
        ends=st.lists(outcomes, min_size=6, max_size=6),
        delayed=st.booleans(),
    )
    def acknowledge(
        self, session: int, numbers: list[int], ends: list[Outcome], delayed: bool
    ) -> None:
        leases = self.picked(numbers)
        reports = [
            report(lease, outcome, delayed) for lease, outcome in zip(leases, ends, strict=False)
        ]
        expected = [
            self.expected.happen(
                each.lease.job_id, Event(each.outcome), delay_ms=each.delay_ms or 0
            )
            if self.holds(each.lease)
            else None
            for each in reports
        ]
        settled = self.run(self.store(session).leases.acknowledge(reports))
        assert [settlement.state for settlement in settled] == expected

    @precondition(lambda self: self.leases)
    @rule(session=sessions, numbers=picks)
    def renew(self, session: int, numbers: list[int]) -> None:
        leases = self.picked(numbers)
        lost = self.run(self.store(session).leases.renew(leases, HOUR_MS))
        assert lost == [lease.job_id for lease in leases if not self.holds(lease)]

    @precondition(lambda self: self.expected.in_states({State.RUNNING}))
    @rule(session=sessions, numbers=picks)
    def lose_leases(self, session: int, numbers: list[int]) -> None:
        running = self.expected.in_states({State.RUNNING})
        lapsing = {running[number % len(running)] for number in numbers}
        self.run(
            self.observer.execute(
                "UPDATE headgate_job SET lease_expires_at_ms = 1 WHERE ulid = ANY($1)", lapsing
            )
        )
        reclaimed = self.run(self.store(session).upkeep.reclaim_expired(100))
        assert {each.job_id for each in reclaimed} == lapsing
        for each in reclaimed:
            state = self.expected.happen(each.job_id, Event.LEASE_LOST)
            assert each.quarantined == (state == State.QUARANTINED)

    @rule(session=sessions)
    def become_due(self, session: int) -> None:
        self.run(
            self.observer.execute(
                "UPDATE headgate_job SET scheduled_at_ms = 1"
                " WHERE state IN ('scheduled', 'retryable')"
            )
        )
        due = {State.SCHEDULED: Event.SCHEDULE_DUE, State.RETRYABLE: Event.BACKOFF_DUE}
        waiting = self.expected.in_states(set(due))
        assert self.run(self.store(session).upkeep.promote_due(1_000)) == len(waiting)
        for job_id in waiting:
            self.expected.happen(job_id, due[self.expected.jobs[job_id].state])

    @precondition(lambda self: self.expected.jobs)
    @rule(session=sessions, action=st.sampled_from(sorted(ACTIONS)), number=st.integers(0, 30))
    def operate(self, session: int, action: str, number: int) -> None:
        job_id = self.job_picked(number)
        operation = getattr(self.store(session).control, action)(job_id)
        event = ACTIONS[action]
        revives = event in (Event.OPERATOR_RETRY, Event.OPERATOR_PROMOTE)
        try:
            (self.expected.revive if revives else self.expected.happen)(job_id, event)
        except UndefinedTransition:
            self.refused(operation, InvalidRequest(""))
        except DuplicateJob as duplicate:
            self.refused(operation, duplicate)
        else:
            self.run(operation)

    @rule(session=sessions, held=st.sampled_from(FINGERPRINTS))
    def release(self, session: int, held: str) -> None:
        operation = self.store(session).quarantine.release(held)
        try:
            self.expected.release(held)
        except KeyError:
            self.refused(operation, NotFound(""))
        except DuplicateJob as duplicate:
            self.refused(operation, duplicate)
        else:
            self.run(operation)

    @rule(session=sessions)
    def sweep(self, session: int) -> None:
        # The second sweep is for those in front of where an earlier one stopped.
        for _ in range(2):
            self.run(self.store(session).quarantine.sweep(1_000))
        for held in self.expected.quarantined:
            parked = {State.SCHEDULED, State.AVAILABLE, State.RETRYABLE}
            for job_id in self.expected.in_states(parked, held):
                self.expected.happen(job_id, Event.FINGERPRINT_QUARANTINED)

    @rule(session=sessions, limit=st.integers(1, 50))
    def fold(self, session: int, limit: int) -> None:
        self.run(self.store(session).upkeep.fold_ledger(limit))

    @precondition(lambda self: self.leases)
    @rule(numbers=picks, one=outcomes, other=outcomes, batch=st.lists(envelopes, max_size=3))
    def at_the_same_time(
        self, numbers: list[int], one: Outcome, other: Outcome, batch: list[Envelope]
    ) -> None:
        """Two gates, two reports on the same leases, an operator and a producer, all at once."""
        leases = self.picked(numbers)
        try:
            batch = prepare(batch)
        except DuplicateJob:
            batch = []
        before = {job_id: job.state for job_id, job in self.expected.jobs.items()}
        held = {lease for lease in leases if self.holds(lease)}
        first, second, third = self.installation.stores

        async def everything() -> Any:
            return await asyncio.gather(
                first.gate.admit("w0", QUEUES, 3, HOUR_MS),
                second.gate.admit("w1", QUEUES, 3, HOUR_MS),
                first.leases.acknowledge([report(lease, one, False) for lease in leases]),
                third.leases.acknowledge([report(lease, other, False) for lease in leases[::-1]]),
                second.control.act("cancel", list({lease.job_id for lease in leases})),
                third.producer.enqueue(batch),
                return_exceptions=True,
            )

        claimed, also_claimed, told, also_told, cancelled, enqueued = self.run(everything())
        for answer in (claimed, also_claimed, told, also_told, cancelled):
            assert not isinstance(answer, BaseException), answer
        claims = [claim.lease for claim in (*claimed, *also_claimed)]
        assert len({lease.job_id for lease in claims}) == len(claims)
        # Each lease ended once at the most, and only one that was held.
        ended = [
            lease
            for lease, settlement in (
                *zip(leases, told, strict=True),
                *zip(leases[::-1], also_told, strict=True),
            )
            if settlement.state is not None
        ]
        assert len(set(ended)) == len(ended)
        assert set(ended) <= held
        for lease in held - set(ended):
            assert lease.job_id in cancelled.succeeded
        if isinstance(enqueued, BaseException):
            assert isinstance(enqueued, DuplicateJob | FingerprintQuarantined), enqueued
            batch = []
        self.leases += claims
        self.run(self.catch_up(before, claims, {envelope.id: envelope for envelope in batch}))

    async def catch_up(
        self, before: dict[str, State], claims: list[Lease], fresh: dict[str, Envelope]
    ) -> None:
        """Takes over from the rows what a race decided, where the table allows it."""
        leases = {(lease.job_id, lease.lease_id): lease for lease in claims}
        rows = {row["ulid"]: row for row in await self.observer.fetch(_ROWS)}
        assert set(rows) <= set(before) | set(fresh)
        assert set(fresh) <= set(rows)
        for job_id in set(before) - set(rows):
            assert before[job_id] is State.RUNNING
            del self.expected.jobs[job_id]
        for job_id, row in rows.items():
            job = self.expected.jobs.setdefault(
                job_id, ExpectedJob(fresh.get(job_id, Envelope(kind="")), State.PENDING)
            )
            assert row["fence"] >= job.fence
            if row["state"] == State.RUNNING and row["lease_id"] != (
                job.lease and job.lease.lease_id
            ):
                job.lease = leases[job_id, row["lease_id"]]
                assert job.lease.fence > job.fence
            elif row["state"] != State.RUNNING:
                job.lease = None
            job.state, job.fence = State(row["state"]), row["fence"]
            job.attempt, job.crash_attempt = row["attempt"], row["crash_attempt"]

    def refused(self, operation: Coroutine[Any, Any, Any], expected: StoreError) -> None:
        async def ask() -> BaseException | None:
            try:
                await operation
            except StoreError as error:
                return error
            return None

        error = self.run(ask())
        assert type(error) is type(expected), error
        # The first of two in one batch has an id that nobody has seen.
        if isinstance(expected, DuplicateJob) and expected.existing_id in self.expected.jobs:
            assert isinstance(error, DuplicateJob)
            assert error.existing_id == expected.existing_id

    @invariant()
    def what_is_there_is_what_should_be(self) -> None:
        self.run(self.compare())

    async def compare(self) -> None:
        rows = {row["ulid"]: row for row in await self.observer.fetch(_ROWS)}
        assert set(rows) == set(self.expected.jobs)
        for job_id, row in rows.items():
            job = self.expected.jobs[job_id]
            assert (row["state"], row["attempt"], row["crash_attempt"]) == (
                job.state,
                job.attempt,
                job.crash_attempt,
            ), job_id
            assert row["fence"] >= job.fence
            job.fence = row["fence"]
            assert row["lease_id"] == (job.lease and job.lease.lease_id)
        assert await self.observer.fetch(_KEYS_WITH_TWO) == []
        await assert_exact(self.observer)
        await assert_lanes(self.observer)


def report(lease: Lease, outcome: Outcome, delayed: bool) -> Acknowledgement:
    waits = outcome is Outcome.SNOOZE or delayed
    return Acknowledgement(lease=lease, outcome=outcome, delay_ms=HOUR_MS if waits else None)


@pytest.mark.timeout(3_600)
def test_no_history_breaks_a_promise(headgate_database: str) -> None:
    with asyncio.Runner() as runner:
        installation = Installation(runner, headgate_database)
        try:
            run_state_machine_as_test(
                partial(Histories, installation),  # type: ignore[arg-type]  # a factory will do
                settings=settings(
                    max_examples=EXAMPLES,
                    stateful_step_count=40,
                    deadline=None,
                    suppress_health_check=[HealthCheck.too_slow],
                ),
            )
        finally:
            runner.run(installation.close())
