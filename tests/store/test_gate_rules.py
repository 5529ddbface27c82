"""The gate against the rules in plain words: random policies, random jobs, random histories.

Whatever the gate starts, the rules allow. When nothing more starts, the rules forbid all the rest,
and the explanation of each job names the reason.
"""

import asyncio
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
from tests.store.rules import Bucket, Rules, Waiting
from tests.store.test_admission import explained

EXAMPLES = 60
QUEUES = ("q", "r")
WORKERS = ("u", "v")
CLASSES = ("a", "b")
FINGERPRINTS = ("f", "g")
LEASE_MS = 3_600_000
# A token comes in so seldom that time only passes when the test says so.
TOKEN_MS = 36_000_000
# With many levels and lanes some calls see only what is blocked, and the next go on behind.
PATIENCE = 4

_CLEAR = """
TRUNCATE headgate_job, headgate_active_partition, headgate_inflight, headgate_rate_bucket,
  headgate_concurrency_limit, headgate_queue_state, headgate_quarantine CASCADE
"""

jobs = st.builds(
    Waiting,
    queue=st.sampled_from(["q", "q", "r"]),
    partition_key=st.sampled_from(["", "x"]),
    rate_class=st.sampled_from(["", "a", "a", "b", "unknown"]),
    weight=st.sampled_from([1, 1, 2, 2, 9]),
    priority=st.sampled_from([0, 0, 0, 5, -5]),
    fingerprint=st.sampled_from((*FINGERPRINTS, "h", "h", "h", "h")),
    sticky_worker=st.sampled_from(("",) * 6 + (*WORKERS, "nobody")),
)
# Some alike, so that budgets and ceilings are met, and lanes hold more than a job.
batches = st.lists(st.tuples(jobs, st.integers(1, 8)), min_size=2, max_size=8).map(
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
changes = st.one_of(
    st.tuples(st.just("enqueue"), batches | alike),
    st.tuples(st.just("finish"), st.integers(1, 8), st.sampled_from([None, None, 1, 4])),
    st.tuples(st.just("refill"), st.sampled_from(CLASSES), st.integers(1, 6)),
    st.tuples(st.just("pause"), st.sampled_from(QUEUES), st.booleans()),
    st.tuples(st.just("limit"), st.sampled_from(QUEUES), st.integers(1, 4)),
    st.tuples(st.just("condemn"), st.sampled_from(FINGERPRINTS)),
    st.tuples(st.just("close"), st.sampled_from(CLASSES), st.booleans()),
)
histories = st.lists(admissions | changes, min_size=3, max_size=15)

buckets = st.builds(
    lambda burst, missing, paused: Bucket(burst - missing, burst, paused),
    burst=st.integers(1, 6),
    missing=st.sampled_from([0, 0, 1, 3, 7]),
    paused=st.sampled_from([False] * 5 + [True]),
)
policies: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {
            "buckets": st.fixed_dictionaries({CLASSES[0]: buckets}, optional={CLASSES[1]: buckets}),
            "ceilings": st.dictionaries(st.sampled_from(QUEUES), st.integers(1, 4), max_size=2),
        },
        optional={"paused": st.sets(st.sampled_from(QUEUES), max_size=1)},
    ),
)


class History:
    """One run of the gate beside the rules."""

    def __init__(self, store: Store, observer: Observer, rules: Rules) -> None:
        self._store = store
        self._observer = observer
        self._rules = rules
        self._gate = Gate(store.gate._database)
        self._claims: dict[str, Claim] = {}

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
        for queue, limit in rules.ceilings.items():
            await ceiling(self._observer, queue, limit)
        for queue in rules.paused:
            await pause(self._observer, queue)

    async def enqueue(self, jobs: list[Waiting]) -> None:
        batch = [job for job in jobs if job.fingerprint not in self._rules.quarantined]
        made = await self._store.producer.enqueue(
            [Envelope(kind="mail", **asdict(job)) for job in batch]
        )
        self._rules.waiting |= {one.id: job for one, job in zip(made, batch, strict=True)}

    async def admit(self, worker: str, queues: tuple[str, ...], capacity: int) -> int:
        claims = await self._gate.admit(worker, queues, capacity, LEASE_MS)
        assert len(claims) <= capacity
        for claim in claims:
            self._rules.start(claim.job_id, worker, queues)
            self._claims[claim.job_id] = claim
        for claim in claims:
            job = self._rules.running[claim.job_id]
            assert self._rules.overtaken(job, worker, queues) == [], job
        return len(claims)

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
                "UPDATE headgate_rate_bucket SET refilled_at_ms = refilled_at_ms - $2"
                " WHERE name = $1",
                name,
                tokens * TOKEN_MS,
            )

    async def pause(self, queue: str, paused: bool) -> None:
        (self._rules.paused.add if paused else self._rules.paused.discard)(queue)
        await pause(self._observer, queue, paused=paused)

    async def limit(self, queue: str, max_concurrent: int) -> None:
        self._rules.ceilings[queue] = max_concurrent
        await ceiling(self._observer, queue, max_concurrent)

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
        for job_id, job in self._rules.waiting.items():
            reason = self._rules.reason(job)
            assert reason or job.sticky_worker == "nobody", job
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
