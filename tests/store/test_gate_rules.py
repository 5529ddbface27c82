"""The gate against the rules in plain words: random policies, random jobs, random histories.

Whatever the gate starts, ends or saves up for, the rules allow. When nothing more starts, the rules
forbid all the rest, and the explanation of each job names the reason.
`HEADGATE_RULES_EXAMPLES` makes it deeper.
"""

import asyncio
import os
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.model.envelope import Envelope
from headgate.model.job import Acknowledgement, Claim
from headgate.model.lifecycle import Outcome
from headgate.store.gate import Gate
from headgate.store.settings import StoreSettings
from headgate.store.store import Store
from tests.store.backlog import bucket, ceiling, pause, quarantine
from tests.store.rows import Observer
from tests.store.rules import ENDS, Bucket, Call, Ceiling, Rules, Waiting
from tests.store.test_admission import explained

EXAMPLES = int(os.environ.get("HEADGATE_RULES_EXAMPLES", "30"))
QUEUES = ("q", "r")
WORKERS = ("u", "v")
CLASSES = ("a", "b")
FINGERPRINTS = ("f", "g")
LEASE_MS = 3_600_000
# A token comes in so seldom that time only passes when the test says so. What takes as long as
# some tokens is over by the next one, and not at once.
TOKEN_MS = 36_000_000
LATE_MS = 3_600_000
EARLY_MS = 60_000
# A call that starts nothing may make room for the next, by what it ends or saves up for.
PATIENCE = 2

# Quicker than to truncate so few rows.
_CLEAR = """
DELETE FROM headgate_job; DELETE FROM headgate_active_partition; DELETE FROM headgate_inflight;
DELETE FROM headgate_rate_bucket; DELETE FROM headgate_concurrency_limit;
DELETE FROM headgate_queue_state; DELETE FROM headgate_quarantine
"""
_ENDED = "SELECT ulid, state::text FROM headgate_job WHERE state IN ('archived', 'cancelled')"
_EXTEND = """
UPDATE headgate_rate_bucket SET reserved_until_ms = reserved_until_ms + $2 WHERE name = $1
"""
_RESERVED = """
SELECT name, ulid FROM headgate_rate_bucket JOIN headgate_job ON ulid = reserved_job_id
WHERE state = 'available'
  AND reserved_until_ms > (extract(epoch from clock_timestamp()) * 1000)::bigint
"""

jobs = st.builds(
    Waiting,
    queue=st.sampled_from(["q", "q", "r"]),
    partition_key=st.sampled_from(["", "x"]),
    rate_class=st.sampled_from(["", "a", "a", "a", "b", "unknown"]),
    weight=st.sampled_from([1, 1, 2, 3, 9]),
    priority=st.sampled_from([0, 0, 0, 5, -5]),
    fingerprint=st.sampled_from((*FINGERPRINTS, "h", "h", "h", "h")),
    sticky_worker=st.sampled_from(("",) * 6 + (*WORKERS, "nobody")),
)
# Some alike, so that budgets and ceilings are met, and lanes hold more than a job.
batches = st.lists(st.tuples(jobs, st.integers(1, 8)), min_size=3, max_size=8).map(
    lambda groups: [job for job, count in groups for _ in range(count)]
)
# Without policies and differences the shortcuts are taken.
plain = Waiting("q", "", "", 1, 0, "h", "")
alike = st.integers(5, 25).map(lambda count: [plain] * count)

admissions = st.tuples(
    st.just("admit"),
    st.sampled_from(WORKERS),
    st.sampled_from([QUEUES, QUEUES, QUEUES[:1]]),
    st.sampled_from([1, 2, 5, 40]),
)
ceilings = st.builds(
    Ceiling,
    limit=st.integers(1, 4),
    mode=st.sampled_from(["queue", "queue", *ENDS, "cancel_running", "cancel_running"]),
)
changes = st.one_of(
    st.tuples(st.just("enqueue"), batches | alike),
    st.tuples(st.just("finish"), st.integers(1, 8), st.sampled_from([None, None, 1, 4])),
    st.tuples(st.just("refill"), st.sampled_from(CLASSES), st.integers(1, 6)),
    st.tuples(st.just("starve"), st.sampled_from([5, 20]), st.integers(1, 6)),
    st.tuples(st.just("pause"), st.sampled_from(QUEUES), st.booleans()),
    st.tuples(st.just("limit"), st.sampled_from(QUEUES), ceilings),
    st.tuples(st.just("condemn"), st.sampled_from(FINGERPRINTS)),
    st.tuples(st.just("close"), st.sampled_from(CLASSES), st.booleans()),
)
histories = st.lists(admissions | changes, min_size=5, max_size=15)

buckets = st.builds(
    lambda burst, missing, paused: Bucket(burst - missing, burst, paused),
    burst=st.integers(1, 6),
    missing=st.sampled_from([0, 1, 5, 7]),
    paused=st.sampled_from([False] * 5 + [True]),
)
strict = st.fixed_dictionaries(
    {
        "buckets": st.fixed_dictionaries({CLASSES[0]: buckets}, optional={CLASSES[1]: buckets}),
        "ceilings": st.dictionaries(st.sampled_from(QUEUES), ceilings, min_size=1),
    },
    optional={"paused": st.sets(st.sampled_from(QUEUES), max_size=1)},
)
policies = st.sampled_from([False, True, True, True]).flatmap(
    lambda some: strict if some else st.just({})
)


class History:
    """One run of the gate beside the rules."""

    def __init__(self, store: Store, observer: Observer, rules: Rules) -> None:
        self._store = store
        self._observer = observer
        self._rules = rules
        self._gate = Gate(store.gate._database)
        self._claims: dict[str, Claim] = {}
        self._ended: set[str] = set()

    async def begin(self) -> None:
        await self._observer.execute(_CLEAR)
        rules = self._rules
        for name, each in rules.buckets.items():
            await bucket(
                self._observer,
                name,
                3,
                window_ms=3 * TOKEN_MS,
                burst=each.burst,
                tokens=each.level,
                paused=each.paused,
            )
        for queue, allowed in rules.ceilings.items():
            await self.limit(queue, allowed)
        for queue in rules.paused:
            await pause(self._observer, queue)

    async def enqueue(self, jobs: list[Waiting]) -> None:
        batch = [job for job in jobs if job.fingerprint not in self._rules.quarantined]
        made = await self._store.producer.enqueue(
            [Envelope(kind="mail", **asdict(job)) for job in batch]
        )
        self._rules.enqueue({one.id: job for one, job in zip(made, batch, strict=True)})

    async def admit(self, worker: str, queues: tuple[str, ...], capacity: int) -> int:
        for memory in self._gate._memories.values():
            # What is done now and then on the side is done every time.
            memory.due.clear()
        claims = await self._gate.admit(worker, queues, capacity, LEASE_MS)
        assert len(claims) <= capacity
        call = await self._seen(worker, queues, {claim.job_id: claim for claim in claims})
        self._rules.follow(call)
        self._claims = {claim.job_id: claim for claim in (*self._claims.values(), *claims)}
        for job_id in call.displaced:
            del self._claims[job_id]
        return len(claims)

    async def _seen(self, worker: str, queues: tuple[str, ...], claims: dict[str, Claim]) -> Call:
        rules = self._rules
        ended: dict[str, str] = {}
        reserved: dict[str, str] = {}
        if any(each.mode != "queue" for each in rules.ceilings.values()):
            rows = await self._observer.fetch(_ENDED)
            ended = {row["ulid"]: row["state"] for row in rows if row["ulid"] not in self._ended}
            self._ended |= ended.keys()
        if rules.buckets:
            rows = await self._observer.fetch(_RESERVED)
            reserved = {row["name"]: row["ulid"] for row in rows}
            for name, job_id in reserved.items():
                if rules.buckets[name].reserved != job_id:
                    await self._observer.execute(_EXTEND, name, LATE_MS)
        return Call(
            worker,
            queues,
            started=claims,
            displaced=[job_id for job_id in ended if job_id in rules.running],
            refused={job_id: state for job_id, state in ended.items() if job_id in rules.waiting},
            reserved=reserved,
        )

    async def finish(self, count: int, actual_weight: int | None) -> None:
        ended = list(self._claims)[:count]
        for job_id in ended:
            self._rules.finish(job_id, actual_weight)
        await self._store.leases.acknowledge(
            [
                Acknowledgement(
                    lease=self._claims.pop(job_id).lease,
                    outcome=Outcome.SUCCESS,
                    actual_weight=actual_weight,
                )
                for job_id in ended
            ]
        )

    async def refill(self, name: str, tokens: int) -> None:
        if name in self._rules.buckets:
            self._rules.refill(name, tokens)
            await self._observer.execute(
                "UPDATE headgate_rate_bucket SET refilled_at_ms = refilled_at_ms - $2,"
                " reserved_until_ms = reserved_until_ms - $2 WHERE name = $1",
                name,
                tokens * TOKEN_MS,
            )

    async def starve(self, waited: int, tokens: int) -> None:
        """A time in which others have taken what came in, and then some tokens for all."""
        self._rules.now += waited
        await self._observer.execute(
            "UPDATE headgate_job SET scheduled_at_ms = scheduled_at_ms - $1"
            " WHERE state = 'available'",
            waited * (TOKEN_MS - EARLY_MS),
        )
        for worker in WORKERS:
            await self.admit(worker, QUEUES, 40)
        for name in CLASSES:
            await self.refill(name, tokens)

    async def pause(self, queue: str, paused: bool) -> None:
        (self._rules.paused.add if paused else self._rules.paused.discard)(queue)
        await pause(self._observer, queue, paused=paused)

    async def limit(self, queue: str, given: Ceiling) -> None:
        self._rules.ceilings[queue] = given
        await ceiling(self._observer, queue, given.limit, given.mode)

    async def condemn(self, fingerprint: str) -> None:
        if fingerprint not in self._rules.quarantined:
            self._rules.quarantined.add(fingerprint)
            await quarantine(self._observer, fingerprint)

    async def close(self, name: str, paused: bool) -> None:
        if name in self._rules.buckets:
            self._rules.buckets[name].paused = paused
            await self._observer.execute(
                "UPDATE headgate_rate_bucket SET paused = $2 WHERE name = $1", name, paused
            )

    async def run_dry(self) -> None:
        for worker in WORKERS:
            empty = 0
            while empty < PATIENCE:
                empty = 0 if await self.admit(worker, QUEUES, 40) else empty + 1

    async def assert_all_the_rest_waits(self) -> None:
        rules = self._rules
        for worker in WORKERS:
            assert rules.starving(Call(worker, QUEUES, (), (), {}, {})) == []
        for job_id, job in rules.waiting.items():
            reason = rules.reason(job)
            assert reason or job.sticky_worker == "nobody", job
            if reason == "concurrency_limit" and job.sticky_worker != "nobody":
                assert rules.ceilings[job.queue].mode == "queue", job
            explanation = await explained(self._store, job_id)
            assert explanation.blocked_by == reason, (job, explanation)
            assert explanation.admissible == (reason is None)


class Installation:
    """The database of the test with an event loop that outlives each example."""

    def __init__(self, dsn: str, runner: "asyncio.Runner") -> None:
        self.runner = runner
        self._dsn = dsn

    async def open(self) -> None:
        self.store = Store(StoreSettings(dsn=self._dsn))
        self.observer: Any = await asyncpg.connect(self._dsn)

    async def close(self) -> None:
        await self.observer.close()
        await self.store.close()


@pytest.fixture
def installation(headgate_database: str) -> Iterator[Installation]:
    with asyncio.Runner() as runner:
        made = Installation(headgate_database, runner)
        runner.run(made.open())
        yield made
        runner.run(made.close())


@given(first=batches | alike, given_policies=policies, history=histories)
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_the_gate_follows_the_rules(
    installation: Installation, first: list[Waiting], given_policies: Any, history: list[Any]
) -> None:
    installation.runner.run(_follow(installation, first, Rules(**given_policies), history))


async def _follow(
    installation: Installation, first: list[Waiting], rules: Rules, steps: list[Any]
) -> None:
    run = History(installation.store, installation.observer, rules)
    await run.begin()
    await run.enqueue(first)
    for name, *arguments in steps:
        await getattr(run, name)(*arguments)
    await run.run_dry()
    await run.assert_all_the_rest_waits()
