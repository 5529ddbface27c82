"""How many jobs are asked for, what runs, and what goes back."""

import asyncio
from typing import Any

import msgspec
import pytest

from headgate import Headgate, Store, StoreSettings, WorkerConfig
from headgate.model.job import Acknowledgement, Claim
from headgate.model.lifecycle import Outcome
from headgate.worker.attempt import Attempt
from headgate.worker.places import HandlerPlaces
from headgate.worker.slots import Rate, Slots
from headgate.worker.stop import Stop
from headgate.worker.workbench import Workbench


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def claim(job_id: str) -> Claim:
    names: dict[str, Any] = {
        field.name: 0 if field.type is int else "" for field in msgspec.structs.fields(Claim)
    }
    return Claim(**{**names, "job_id": job_id, "kind": "a", "payload": b"{}", "schema_version": 1})


class Bench:
    """Slots with attempts whose handlers wait until they are let go."""

    def __init__(self, **config: Any) -> None:
        self.app = Headgate()
        self.go_on = asyncio.Event()
        self.reports: dict[str, Acknowledgement | None] = {}
        self.clock = Clock()
        self.rate = Rate(self.clock)
        self.slots = Slots(WorkerConfig(**config), rate=self.rate)

        @self.app.task("a")
        async def waits() -> None:
            await self.go_on.wait()

        self.bench = Workbench(
            worker_id="w",
            places=HandlerPlaces(self.app, WorkerConfig(**config)),
            store=Store(StoreSettings(dsn="postgresql://nobody@127.0.0.1:1/nothing")),
            lost=self.slots.settled,
            settled=self.slots.settled,
            ended=self._ended,
        )

    def _ended(self, attempt: Attempt) -> None:
        self.reports[attempt.claim.job_id] = attempt.report
        self.slots.settled(attempt)
        self.slots.ended(attempt)

    def attempts(self, *job_ids: str) -> list[Attempt]:
        return [Attempt(claim(job_id), self.bench, 30_000) for job_id in job_ids]

    def measure(self, per_second: float) -> None:
        """Makes the rate what it would be after a while."""
        self.rate.per_second = per_second


def test_without_a_rate_only_free_slots_are_asked_for() -> None:
    assert Bench(concurrency=4).slots.wanted() == 4


@pytest.mark.parametrize(
    ("concurrency", "per_second", "ahead"),
    [
        (10, 5, 0),
        (10, 50, 5),
        (10, 1_000, 20),
        (10, 20_000, 100),
        (200, 20_000, 200),
        (1, 20, 1),
        (1, 100, 2),
    ],
)
def test_jobs_are_taken_ahead_at_the_rate_they_end(
    concurrency: int, per_second: float, ahead: int
) -> None:
    bench = Bench(concurrency=concurrency)
    bench.measure(per_second)
    assert bench.slots.wanted() == concurrency + ahead


def test_nothing_is_taken_ahead_when_that_is_off() -> None:
    bench = Bench(concurrency=10, prefetch_ms=0)
    bench.measure(5_000)
    assert bench.slots.wanted() == 10


def test_the_rate_follows_what_ends() -> None:
    clock = Clock()
    rate = Rate(clock)
    for _ in range(200):
        clock.now += 0.01
        for _ in range(5):
            rate.count()
        rate.update()
    assert rate.per_second == pytest.approx(500, rel=0.05)
    clock.now += 5
    rate.update()
    assert rate.per_second == 0


async def test_what_does_not_fit_waits_and_starts_when_a_slot_is_free() -> None:
    bench = Bench(concurrency=2)
    first, second, third = bench.attempts("1", "2", "3")
    assert bench.slots.take([first, second, third]) == []
    assert bench.slots.running == {first, second}
    assert set(bench.slots.held) == {"1", "2", "3"}
    assert bench.slots.wanted() == 0
    first.abandon(Stop.LEASE_LOST)
    assert bench.slots.running == {second, third}
    assert set(bench.slots.held) == {"2", "3"}
    bench.go_on.set()
    await bench.slots.idle.wait()
    assert bench.slots.held == {}
    assert bench.slots.wanted() == 2


async def test_closing_gives_back_what_has_not_started() -> None:
    bench = Bench(concurrency=1)
    running, waiting, late = bench.attempts("1", "2", "3")
    bench.slots.take([running, waiting])
    bench.slots.close()
    bench.slots.take([late])
    outcomes = {job_id: report and report.outcome for job_id, report in bench.reports.items()}
    assert outcomes == {"2": Outcome.RATE_LIMITED, "3": Outcome.RATE_LIMITED}
    assert bench.slots.running == {running}
    bench.go_on.set()
    await bench.slots.idle.wait()


async def test_a_job_that_comes_back_replaces_its_attempt() -> None:
    bench = Bench(concurrency=2)
    (old,) = bench.attempts("1")
    (new,) = bench.attempts("1")
    bench.slots.take([old])
    assert bench.slots.take([new]) == [old]
    assert bench.slots.held == {"1": new}
    old.abandon(Stop.LEASE_LOST)
    assert bench.slots.held == {"1": new}
    bench.go_on.set()
    await bench.slots.idle.wait()


async def test_an_attempt_that_is_stopped_before_its_first_step_still_ends() -> None:
    bench = Bench(concurrency=1)
    (attempt,) = bench.attempts("1")
    bench.slots.take([attempt])
    attempt.stop(Stop.RELEASED)
    await bench.slots.idle.wait()
    report = bench.reports["1"]
    assert report is not None
    assert report.outcome == Outcome.RATE_LIMITED
