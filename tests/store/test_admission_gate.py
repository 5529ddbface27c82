"""What is explained is what the gate then does: random policies, random backlogs."""

import random

import pytest

from headgate.model.admission import UNLIMITED, Admission
from headgate.model.envelope import Envelope
from headgate.model.policy import ConcurrencyLimit, Saturation
from headgate.store.store import Store
from tests.store.backlog import admit, bucket, quarantine
from tests.store.rows import HOUR_MS, Observer, start
from tests.store.test_admission import explained

QUEUES = ("q", "r", "s")
CLASSES = ("a", "b", "c")


async def make_policies(store: Store, observer: Observer, dice: random.Random) -> None:
    for name in CLASSES:
        burst = dice.randrange(1, 6)
        await bucket(
            observer,
            name,
            burst,
            window_ms=HOUR_MS,
            tokens=dice.randrange(burst + 1),
            paused=dice.random() < 0.15,
        )
    for queue in QUEUES:
        if dice.random() < 0.15:
            await store.queues.pause(queue)
        if dice.random() < 0.5:
            ceiling = ConcurrencyLimit(
                name=queue,
                queue=queue,
                max_concurrent=dice.randrange(1, 4),
                on_saturated=dice.choice(["queue", *Saturation]),
            )
            await store.policies.put_concurrency_limit(ceiling)
    for fingerprint in ("f1", "f2", "f3"):
        if dice.random() < 0.3:
            await quarantine(observer, fingerprint)


async def make_backlog(store: Store, observer: Observer, dice: random.Random) -> list[str]:
    """Sixty jobs, some of which run; the ids of those that wait."""
    jobs = await store.producer.enqueue(
        [
            Envelope(
                kind="mail",
                queue=dice.choice(QUEUES),
                partition_key=dice.choice(["", "x", "y"]),
                rate_class=dice.choice(["", "", *CLASSES, "unknown"]),
                weight=dice.choice([1, 1, 2, 7]),
                priority=dice.choice([0, 0, 0, 5]),
                fingerprint=dice.choice(["f1", "f2", "f3", "f4", "f5"]),
            )
            for _ in range(60)
        ]
    )
    running = {job.id for job in dice.sample(jobs, 8)}
    await start(observer, running)
    return [job.id for job in jobs if job.id not in running]


@pytest.mark.parametrize("seed", range(16))
async def test_what_is_explained_is_what_the_gate_does(
    store: Store, observer: Observer, seed: int
) -> None:
    """Nothing that is blocked starts. Of what is not, the first of every partition does, and of
    every class some.
    """
    dice = random.Random(seed)
    waiting = await make_backlog(store, observer, dice)
    await make_policies(store, observer, dice)
    before = {job_id: await explained(store, job_id) for job_id in waiting}
    started = {claim.job_id for _ in range(4) for claim in await admit(store, 60, *QUEUES)}
    for job_id, admission in before.items():
        if not admission.admissible:
            assert job_id not in started, admission
        elif is_first(admission) and is_unlimited(admission):
            assert job_id in started, admission
    first = {class_of(each) for each in before.values() if each.admissible and is_first(each)}
    assert first <= {class_of(before[job_id]) for job_id in started}


async def test_the_random_cases_are_not_all_alike(store: Store, observer: Observer) -> None:
    dice = random.Random(3)
    waiting = await make_backlog(store, observer, dice)
    await make_policies(store, observer, dice)
    await store.queues.resume("q")
    await quarantine(observer, "f4")
    reasons = {(await explained(store, job_id)).blocked_by for job_id in waiting}
    assert {None, "quarantine", "rate_class"} <= reasons


def is_first(admission: Admission) -> bool:
    return admission.detail["position_in_partition"] == "0"


def is_unlimited(admission: Admission) -> bool:
    return admission.detail.get("tokens_available", UNLIMITED) == UNLIMITED


def class_of(admission: Admission) -> str:
    return admission.detail.get("rate_class", "")
