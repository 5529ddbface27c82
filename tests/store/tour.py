"""A walk through everything a store does, for stores that are reached in an unusual way."""

import pytest
from sqlalchemy import insert

from headgate.model.envelope import Envelope
from headgate.model.errors import Backpressure, DuplicateJob
from headgate.model.job import Acknowledgement, JobFilter, RequestKey, Stored, WorkerBeat
from headgate.model.lifecycle import Outcome
from headgate.store.store import Store
from headgate.tables import enqueue_policy

HOUR_MS = 3_600_000


async def take(store: Store) -> None:
    """Uses each port of the store and checks its answers. The database has to be fresh."""
    await store.check_schema()
    await store.inspection.ping()
    await _produce(store)
    await _work(store)
    await _look(store)
    await _keep_up(store)
    await _meet(store)


async def _produce(store: Store) -> None:
    batch = [
        Envelope(kind="mail", id="bytes", payload=b"\0\xff", headers={"h": "é"}, tags=("t",)),
        Envelope(kind="mail", id="later", delay_ms=HOUR_MS),
        Envelope(kind="mail", id="kept", retention_ms=HOUR_MS, priority=3),
    ]
    await store.producer.enqueue(batch)
    await store.producer.enqueue(batch)
    await store.producer.enqueue([Envelope(kind="mail", id="holder", unique_key=b"k")])
    for replace in (0, 1):
        with pytest.raises(DuplicateJob) as duplicate:
            await store.producer.enqueue(
                [Envelope(kind="mail", unique_key=b"k", unique_replace=replace, payload=b"new")]
            )
        found = duplicate.value
        assert (found.existing_id, found.replaced) == ("holder", bool(replace))
    request = RequestKey("mail", "key")
    [first] = await store.producer.enqueue([Envelope(kind="mail")], request=request)
    [again] = await store.producer.enqueue([Envelope(kind="mail")], request=request)
    assert (again.id, again.replayed) == (first.id, True)


async def _work(store: Store) -> None:
    claims = await store.gate.admit("worker", ["default"], 10, HOUR_MS)
    leases = {claim.job_id: claim.lease for claim in claims}
    assert claims[0].job_id == "kept"
    assert {"bytes", "kept", "holder"} < set(leases)
    assert "later" not in leases
    assert await store.leases.renew(list(leases.values()), HOUR_MS) == []
    settlements = await store.leases.acknowledge(
        [
            Acknowledgement(
                lease=leases["kept"], outcome=Outcome.SUCCESS, result=Stored(1, b"\0"), logs=("l",)
            ),
            Acknowledgement(lease=leases["bytes"], outcome=Outcome.RETRY, error="é"),
            Acknowledgement(lease=leases["holder"], outcome=Outcome.REVOKE),
        ]
    )
    assert [each.state for each in settlements] == ["completed", "retryable", "deleted"]


async def _look(store: Store) -> None:
    job = await store.inspection.job("bytes", include_payload=True)
    assert job is not None
    assert (job.payload, job.metadata, job.tags) == (b"\0\xff", {"h": "é"}, ["t"])
    assert job.errors[0]["error"] == "é"
    for where in (JobFilter(), JobFilter(kind="mail", queue="default", tags_all=("t",))):
        page = await store.inspection.jobs(where, cursor=None, limit=10)
        assert "bytes" in [job.id for job in page.jobs]


async def _keep_up(store: Store) -> None:
    assert await store.upkeep.promote_due(10) == 0
    assert await store.upkeep.reclaim_expired(10) == []
    assert await store.upkeep.fold_ledger(1_000) > 0
    async with store.database.transaction() as session:
        await session.fetch(insert(enqueue_policy).values(queue="default", max_unfinished_jobs=0))
    with pytest.raises(Backpressure) as pressure:
        await store.producer.enqueue([Envelope(kind="mail")])
    assert (pressure.value.limit, pressure.value.current) == (0, 3)


async def _meet(store: Store) -> None:
    assert await store.duties.claim("reclaimer", "me", HOUR_MS)
    assert not await store.duties.claim("reclaimer", "you", HOUR_MS)
    beat = WorkerBeat(
        worker_id="worker",
        host="host",
        pid=1,
        queues=("default",),
        concurrency=1,
        inflight=0,
        polls=1,
        empty_polls=0,
    )
    assert await store.workers.heartbeat(beat) is None
    await store.workers.signal("worker", "quiet")
    assert await store.workers.heartbeat(beat) == "quiet"
