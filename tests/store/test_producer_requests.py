"""Keys of requests: whatever becomes of the job, the same key answers with the same id."""

import asyncio

from headgate.model.envelope import Envelope
from headgate.model.job import Acknowledgement, RequestKey
from headgate.model.lifecycle import Outcome
from headgate.store.store import Store
from tests.store.rows import Observer, count_jobs, now_ms, start

KEY = RequestKey("mail", "key")


async def test_a_repetition_answers_with_the_first_job(store: Store, observer: Observer) -> None:
    [first] = await store.producer.enqueue([Envelope(kind="mail", payload=b"1")], request=KEY)
    [second] = await store.producer.enqueue([Envelope(kind="mail", payload=b"2")], request=KEY)
    assert (first.replayed, second.replayed) == (False, True)
    assert second.id == first.id
    assert await count_jobs(observer) == 1
    row = await observer.fetchrow("SELECT * FROM headgate_enqueue_key")
    assert row is not None
    assert (row["scope"], row["key"], row["job_id"]) == ("mail", "key", first.id)
    assert abs(row["recorded_at_ms"] - await now_ms(observer)) < 60_000


async def test_the_scope_is_part_of_the_key(store: Store, observer: Observer) -> None:
    for key in (KEY, RequestKey("mail", "other"), RequestKey("other", "key")):
        [job] = await store.producer.enqueue([Envelope(kind="mail")], request=key)
        assert not job.replayed
    assert await count_jobs(observer) == 3


async def test_the_key_outlives_its_job(store: Store, observer: Observer) -> None:
    [first] = await store.producer.enqueue([Envelope(kind="mail")], request=KEY)
    [lease] = await start(observer, [first.id])
    await store.leases.acknowledge([Acknowledgement(lease=lease, outcome=Outcome.SUCCESS)])
    assert await count_jobs(observer) == 0
    [second] = await store.producer.enqueue([Envelope(kind="mail")], request=KEY)
    assert (second.id, second.replayed) == (first.id, True)
    assert await count_jobs(observer) == 0


async def test_a_repetition_takes_no_place_in_a_full_queue(
    store: Store, observer: Observer
) -> None:
    await observer.execute("INSERT INTO headgate_enqueue_policy VALUES ('default', 1)")
    [first] = await store.producer.enqueue([Envelope(kind="mail")], request=KEY)
    [second] = await store.producer.enqueue([Envelope(kind="mail")], request=KEY)
    assert (second.id, second.replayed) == (first.id, True)


async def test_the_key_is_recorded_on_the_slow_way_too(store: Store, observer: Observer) -> None:
    await observer.execute("INSERT INTO headgate_enqueue_policy VALUES ('default', 10)")
    results = await asyncio.gather(
        *(store.producer.enqueue([Envelope(kind="mail")], request=KEY) for _ in range(8))
    )
    assert len({job.id for [job] in results}) == 1
    assert sum(not job.replayed for [job] in results) == 1
    assert await count_jobs(observer) == 1


async def test_eight_at_once_make_one_job(store: Store, observer: Observer) -> None:
    results = await asyncio.gather(
        *(
            store.producer.enqueue([Envelope(kind="mail", payload=bytes([n]))], request=KEY)
            for n in range(8)
        )
    )
    assert len({job.id for [job] in results}) == 1
    assert sum(not job.replayed for [job] in results) == 1
    assert await count_jobs(observer) == 1


async def test_a_refused_request_may_be_repeated(store: Store, observer: Observer) -> None:
    await observer.execute("INSERT INTO headgate_quarantine VALUES ('bad', 'mail', 3, 1)")
    envelope = Envelope(kind="mail", fingerprint="bad")
    results = await asyncio.gather(
        store.producer.enqueue([envelope], request=KEY), return_exceptions=True
    )
    assert isinstance(results[0], Exception)
    await observer.execute("DELETE FROM headgate_quarantine")
    [job] = await store.producer.enqueue([envelope], request=KEY)
    assert not job.replayed
