"""Ids: a repetition is a success, a different job under the same id a conflict."""

from typing import Any

import pytest

from headgate.model import identity
from headgate.model.envelope import Envelope
from headgate.model.errors import IdConflict
from headgate.model.job import Acknowledgement
from headgate.model.lifecycle import Outcome
from headgate.store import enqueueing
from headgate.store.store import Store
from tests.store.rows import Observer, count_jobs, job_row, start, state_of

ORIGINAL: dict[str, Any] = {"id": "one", "kind": "mail", "payload": b"x"}


async def test_a_replay_changes_nothing(store: Store, observer: Observer) -> None:
    await store.producer.enqueue([Envelope(**ORIGINAL, tags=("a",))])
    before = await job_row(observer, "one")
    ledger = await observer.fetchval("SELECT count(*) FROM headgate_ledger")
    [again] = await store.producer.enqueue([Envelope(**ORIGINAL, priority=9, tags=("b",))])
    assert (again.id, again.replayed) == ("one", False)
    assert await job_row(observer, "one") == before
    assert await observer.fetchval("SELECT count(*) FROM headgate_ledger") == ledger


@pytest.mark.parametrize("outcome", [Outcome.SUCCESS, Outcome.SKIP])
async def test_a_finished_job_is_replayed_too(
    store: Store, observer: Observer, outcome: Outcome
) -> None:
    await store.producer.enqueue([Envelope(**ORIGINAL, retention_ms=60_000)])
    [lease] = await start(observer, ["one"])
    await store.leases.acknowledge([Acknowledgement(lease=lease, outcome=outcome)])
    before = await job_row(observer, "one")
    await store.producer.enqueue([Envelope(**ORIGINAL)])
    assert await job_row(observer, "one") == before


async def test_the_id_is_free_when_its_job_is_gone(store: Store, observer: Observer) -> None:
    await store.producer.enqueue([Envelope(**ORIGINAL)])
    [lease] = await start(observer, ["one"])
    await store.leases.acknowledge([Acknowledgement(lease=lease, outcome=Outcome.SUCCESS)])
    await store.producer.enqueue([Envelope(**ORIGINAL | {"kind": "other"})])
    assert await state_of(observer, "one") == "available"


@pytest.mark.parametrize(
    "changed",
    [{"kind": "other", "fingerprint": "f"}, {"fingerprint": "g"}, {"queue": "other"}],
    ids=["kind", "fingerprint", "queue"],
)
async def test_another_job_under_the_id_is_a_conflict(
    store: Store, observer: Observer, changed: dict[str, str]
) -> None:
    await store.producer.enqueue([Envelope(**ORIGINAL, fingerprint="f")])
    before = await job_row(observer, "one")
    with pytest.raises(IdConflict, match=r"^id conflict: job one$"):
        await store.producer.enqueue([Envelope(**ORIGINAL | {"fingerprint": "f"} | changed)])
    assert await job_row(observer, "one") == before
    assert await count_jobs(observer) == 1


async def test_an_empty_queue_is_the_default_one_before_it_is_compared(store: Store) -> None:
    await store.producer.enqueue([Envelope(**ORIGINAL, queue="")])
    await store.producer.enqueue([Envelope(**ORIGINAL, queue="default")])


async def test_a_batch_of_old_and_new_writes_the_new(store: Store, observer: Observer) -> None:
    await store.producer.enqueue([Envelope(kind="mail", id="b")])
    jobs = await store.producer.enqueue([Envelope(kind="mail", id=name) for name in "abc"])
    assert [job.id for job in jobs] == ["a", "b", "c"]
    assert await count_jobs(observer) == 3


class Ids:
    """Hands out the given ids first, then real ones."""

    def __init__(self, *first: str) -> None:
        self.first = list(first)

    def __call__(self) -> str:
        return self.first.pop(0) if self.first else identity.new_job_id()


@pytest.mark.parametrize("collisions", [1, 3])
async def test_a_generated_id_that_exists_is_drawn_anew(
    store: Store, observer: Observer, monkeypatch: pytest.MonkeyPatch, collisions: int
) -> None:
    taken = [f"taken{number}" for number in range(collisions)]
    await store.producer.enqueue([Envelope(kind="mail", id=name) for name in taken])
    ids = Ids(*taken)
    monkeypatch.setattr(
        "headgate.model.envelope.new_job_ids", lambda count: [ids() for _ in range(count)]
    )
    monkeypatch.setattr(enqueueing, "new_job_id", ids)
    # The same content on purpose: it must not pass for a replay.
    jobs = await store.producer.enqueue([Envelope(kind="mail"), Envelope(kind="mail", id="mine")])
    assert ids.first == []
    assert jobs[1].id == "mine"
    assert jobs[0].id not in taken
    assert await state_of(observer, jobs[0].id) == "available"
    assert await count_jobs(observer) == collisions + 2
