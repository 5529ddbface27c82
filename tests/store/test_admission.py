"""Why a job does or does not run: the rules, one by one, in their order."""

from typing import Any

import pytest

from headgate.model.admission import UNLIMITED, Admission
from headgate.model.envelope import Envelope
from headgate.model.job import WorkerBeat
from headgate.model.lifecycle import State
from headgate.model.policy import ConcurrencyLimit, RateClassPolicy
from headgate.store.store import Store
from tests.store.backlog import bucket, quarantine
from tests.store.journeys import bring
from tests.store.rows import HOUR_MS, Observer, now_ms, start


async def one(store: Store, **envelope: Any) -> str:
    [job] = await store.producer.enqueue([Envelope(**{"kind": "mail", "queue": "q", **envelope})])
    return job.id


async def explained(store: Store, job_id: str, *, advice: bool = False) -> Admission:
    admission = await store.policies.explain_admission(job_id, advice=advice)
    assert admission is not None
    return admission


async def limit_queue(store: Store, ceiling: int, strategy: str = "queue") -> None:
    await store.policies.put_concurrency_limit(
        ConcurrencyLimit(name="l", queue="q", max_concurrent=ceiling, on_saturated=strategy)
    )


@pytest.mark.parametrize("job_id", ["nobody", "", "a\0b", "\ud800"])
async def test_no_such_job(store: Store, job_id: str) -> None:
    assert await store.policies.explain_admission(job_id) is None


async def test_free_to_run(store: Store) -> None:
    assert await explained(store, await one(store)) == Admission(
        admissible=True,
        blocked_by=None,
        detail={"state": "available", "position_in_partition": "0", "partition_deficit": "0"},
        estimated_admission_ms=0,
    )


@pytest.mark.parametrize(
    ("state", "admissible", "blocked_by", "estimate"),
    [
        (State.PENDING, False, None, None),
        (State.RUNNING, True, None, 0),
        (State.COMPLETED, False, None, None),
        (State.ARCHIVED, False, None, None),
        (State.CANCELLED, False, None, None),
        (State.QUARANTINED, False, "quarantine", None),
        (State.UNDECODABLE, False, None, None),
    ],
)
async def test_jobs_that_do_not_wait(
    store: Store,
    observer: Observer,
    state: State,
    admissible: bool,
    blocked_by: str | None,
    estimate: int | None,
) -> None:
    job_id = await bring(store, observer, Envelope(kind="mail", queue="q"), state)
    await store.queues.pause("q")
    assert await explained(store, job_id) == Admission(
        admissible=admissible,
        blocked_by=blocked_by,
        detail={"state": state.value},
        estimated_admission_ms=estimate,
    )


@pytest.mark.parametrize("state", [State.SCHEDULED, State.RETRYABLE])
async def test_not_due(store: Store, observer: Observer, state: State) -> None:
    job_id = await bring(store, observer, Envelope(kind="mail", queue="q"), state)
    await store.queues.pause("q")
    at_ms = await now_ms(observer) + HOUR_MS
    await observer.execute("UPDATE headgate_job SET scheduled_at_ms = $1", at_ms)
    admission = await explained(store, job_id)
    left = at_ms - await now_ms(observer)
    assert (admission.admissible, admission.blocked_by) == (False, "schedule")
    assert admission.detail == {"state": state.value, "scheduled_at_ms": str(at_ms)}
    assert admission.estimated_admission_ms is not None
    assert left <= admission.estimated_admission_ms <= HOUR_MS
    await observer.execute("UPDATE headgate_job SET scheduled_at_ms = 7")
    assert (await explained(store, job_id)).estimated_admission_ms == 0


async def test_an_available_job_that_is_not_due(store: Store, observer: Observer) -> None:
    job_id = await one(store)
    await observer.execute("UPDATE headgate_job SET scheduled_at_ms = 4000000000000")
    admission = await explained(store, job_id)
    assert admission.blocked_by == "schedule"
    assert admission.detail == {"state": "available", "scheduled_at_ms": "4000000000000"}


async def test_the_first_reason_is_given(store: Store, observer: Observer) -> None:
    """In the order of the gate; each reason is taken away to find the next."""
    job_id = await one(store, fingerprint="f", rate_class="smtp", partition_key="p")
    other = await one(store, partition_key="p")
    await start(observer, [other])
    await store.queues.pause("q")
    await quarantine(observer, "f")
    await bucket(observer, "smtp", 1, window_ms=HOUR_MS, tokens=0)
    await limit_queue(store, 1)
    assert await explained(store, job_id) == Admission(
        admissible=False,
        blocked_by="queue_paused",
        detail={"state": "available"},
        estimated_admission_ms=None,
    )
    await store.queues.resume("q")
    assert await explained(store, job_id) == Admission(
        admissible=False,
        blocked_by="quarantine",
        detail={"state": "available", "fingerprint": "f"},
        estimated_admission_ms=None,
    )
    await observer.execute("DELETE FROM headgate_quarantine")
    tokens = {
        "state": "available",
        "rate_class": "smtp",
        "weight": "1",
        "tokens_ahead_in_class": "0",
        "tokens_available": "0",
    }
    assert await explained(store, job_id) == Admission(
        admissible=False,
        blocked_by="rate_class",
        detail=tokens,
        estimated_admission_ms=HOUR_MS,
    )
    await observer.execute("UPDATE headgate_rate_bucket SET tokens = 1")
    ceiling = {"max_concurrent": "1", "inflight": "1", "on_saturated": "queue"}
    assert await explained(store, job_id) == Admission(
        admissible=False,
        blocked_by="concurrency_limit",
        detail={**tokens, "tokens_available": "1", **ceiling},
        estimated_admission_ms=None,
    )
    await limit_queue(store, 2)
    assert await explained(store, job_id) == Admission(
        admissible=True,
        blocked_by=None,
        detail={
            **tokens,
            "tokens_available": "1",
            **ceiling,
            "max_concurrent": "2",
            "position_in_partition": "0",
            "partition_deficit": "0",
        },
        estimated_admission_ms=0,
    )


@pytest.mark.parametrize(
    ("strategy", "blocked_by"),
    [
        ("queue", "concurrency_limit"),
        ("discard", "concurrency_limit"),
        ("cancel_incoming", "concurrency_limit"),
        ("cancel_running", None),
    ],
)
async def test_a_newcomer_may_displace(
    store: Store, observer: Observer, strategy: str, blocked_by: str | None
) -> None:
    await start(observer, [await one(store), await one(store)])
    await limit_queue(store, 1, strategy)
    admission = await explained(store, await one(store))
    assert (admission.admissible, admission.blocked_by) == (blocked_by is None, blocked_by)
    assert admission.detail["inflight"] == "2"
    assert (await explained(store, await one(store, partition_key="p"))).admissible


async def test_a_paused_class_has_no_estimate(store: Store, observer: Observer) -> None:
    job_id = await one(store, rate_class="smtp")
    for paused, limit in ((True, 1), (False, 0)):
        terms = RateClassPolicy(limit=limit, window_ms=HOUR_MS, paused=paused)
        await store.policies.put_rate_class("smtp", terms)
        admission = await explained(store, job_id)
        assert (admission.admissible, admission.blocked_by) == (False, "rate_class")
        assert admission.detail["tokens_available"] == "0"
        assert admission.estimated_admission_ms is None
    terms = RateClassPolicy(limit=1, window_ms=HOUR_MS)
    await store.policies.put_rate_class("smtp", terms)
    admission = await explained(store, job_id)
    assert (admission.blocked_by, admission.estimated_admission_ms) == ("rate_class", HOUR_MS)


async def test_an_unknown_class_limits_nothing(store: Store) -> None:
    admission = await explained(store, await one(store, rate_class="nobody's", weight=7))
    assert admission.admissible
    assert admission.detail == {
        "state": "available",
        "rate_class": "nobody's",
        "weight": "7",
        "tokens_ahead_in_class": "0",
        "tokens_available": UNLIMITED,
        "position_in_partition": "0",
        "partition_deficit": "0",
    }


async def test_what_is_ahead_in_the_class_of_the_queue(store: Store, observer: Observer) -> None:
    await bucket(observer, "smtp", 10, window_ms=HOUR_MS, tokens=4)
    await one(store, rate_class="smtp", weight=3, partition_key="x")
    await one(store, rate_class="smtp", weight=100)
    await one(store, rate_class="other", weight=9)
    await one(store, rate_class="smtp", weight=9, queue="elsewhere")
    await one(store, rate_class="smtp", weight=9, pending=True)
    light = await one(store, rate_class="smtp", weight=2)
    urgent = await one(store, rate_class="smtp", weight=5, priority=1)
    await one(store, rate_class="smtp", weight=9)
    admission = await explained(store, light)
    assert admission.admissible
    assert admission.detail["tokens_ahead_in_class"] == str(5 + 3 + 10)
    admission = await explained(store, urgent)
    assert admission.blocked_by == "rate_class"
    assert admission.detail["tokens_ahead_in_class"] == "0"
    assert admission.detail["tokens_available"] == "4"
    assert admission.estimated_admission_ms == (5 - 4) * HOUR_MS // 10


async def test_a_job_that_costs_more_than_the_burst(store: Store, observer: Observer) -> None:
    await bucket(observer, "smtp", 10, window_ms=HOUR_MS, tokens=10)
    job_id = await one(store, rate_class="smtp", weight=500)
    assert (await explained(store, job_id)).admissible
    await observer.execute("UPDATE headgate_rate_bucket SET tokens = 9")
    admission = await explained(store, job_id)
    assert admission.blocked_by == "rate_class"
    assert admission.detail["weight"] == "500"
    assert admission.estimated_admission_ms == HOUR_MS // 10


async def test_the_place_in_the_partition(store: Store, observer: Observer) -> None:
    first = await one(store, partition_key="p", rate_class="b")
    await one(store, partition_key="x")
    await one(store, partition_key="p", sticky_worker="w")
    await one(store, partition_key="p", pending=True)
    await one(store, partition_key="p", queue="elsewhere")
    second = await one(store, partition_key="p", rate_class="a")
    urgent = await one(store, partition_key="p", priority=5)
    more_urgent = await one(store, partition_key="p", priority=9, rate_class="c")
    pinned = await one(store, partition_key="p", sticky_worker="w")
    idle = await one(store, partition_key="p", priority=-(2**31))
    places = [
        (await explained(store, job_id)).detail["position_in_partition"]
        for job_id in (more_urgent, urgent, first, second, idle, pinned)
    ]
    assert places == ["0", "1", "2", "3", "4", "1"]


async def test_places_are_counted_up_to_a_thousand(store: Store, observer: Observer) -> None:
    await bucket(observer, "smtp", 10_000, window_ms=HOUR_MS)
    for priority in (5, 0):
        await store.producer.enqueue(
            [Envelope(kind="mail", queue="q", rate_class="smtp", priority=priority)] * 700
        )
    last = await one(store, rate_class="smtp")
    detail = (await explained(store, last)).detail
    assert detail["position_in_partition"] == "1000"
    assert detail["tokens_ahead_in_class"] == "1000"


async def test_advice(store: Store, observer: Observer) -> None:
    job_id = await one(store, sticky_worker="w", rate_class="nobody's")
    assert not (await explained(store, job_id)).advice
    assert (await explained(store, job_id, advice=True)).advice == [
        "no live worker polls queue q",
        "pinned to worker w, never seen",
        "rate class nobody's does not exist, so nothing limits this job",
    ]
    await store.workers.heartbeat(beat("other", "q"))
    await store.workers.heartbeat(beat("w", "elsewhere"))
    await observer.execute(
        "UPDATE headgate_worker SET heartbeat_at_ms = 1700000000999 WHERE worker_id = 'w'"
    )
    assert (await explained(store, job_id, advice=True)).advice == [
        "pinned to worker w, not seen since 2023-11-14T22:13:20+00:00",
        "rate class nobody's does not exist, so nothing limits this job",
    ]
    await store.workers.heartbeat(beat("w", "elsewhere"))
    await bucket(observer, "nobody's", 1)
    assert (await explained(store, job_id, advice=True)).advice == []
    ended = await bring(store, observer, Envelope(kind="mail", queue="idle"), State.ARCHIVED)
    assert (await explained(store, ended, advice=True)).advice == []


def beat(worker_id: str, *queues: str) -> WorkerBeat:
    return WorkerBeat(
        worker_id=worker_id,
        host="h",
        pid=1,
        queues=queues,
        concurrency=1,
        inflight=0,
        polls=0,
        empty_polls=0,
    )
