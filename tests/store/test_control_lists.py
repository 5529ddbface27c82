"""A list of ids: every job gets its own answer, and what fails for one fails for it alone."""

import asyncio
import secrets

import asyncpg
import pytest

from headgate.model.actions import ActionFailure
from headgate.model.envelope import Envelope
from headgate.model.errors import DuplicateJob, InvalidRequest, StoreUnavailable
from headgate.model.lifecycle import OPERATOR_ACTIONS, OperatorAction, State
from headgate.model.operators import BULK_ACTIONS, refusal
from headgate.store.store import Store
from tests.store.conftest import OpenStore
from tests.store.journeys import bring
from tests.store.races import blocked, somebody
from tests.store.rows import HOUR_MS, Observer, assert_lanes, deadlocks, state_of


@pytest.mark.parametrize("action", BULK_ACTIONS)
async def test_a_job_from_each_state(
    store: Store, observer: Observer, action: OperatorAction
) -> None:
    ids = [await bring(store, observer, Envelope(kind="mail"), state) for state in State]
    report = await store.control.act(action, [*ids, "nobody"])
    reached = OPERATOR_ACTIONS[action]
    assert report.succeeded == [
        job_id for job_id, state in zip(ids, State, strict=True) if state in reached
    ]
    assert report.failed == [
        *(
            ActionFailure(job_id, refusal(action, job_id, state).message)
            for job_id, state in zip(ids, State, strict=True)
            if state not in reached
        ),
        ActionFailure("nobody", "not found: job nobody"),
    ]
    await assert_lanes(observer)


async def test_the_order_is_that_of_the_ids(store: Store, observer: Observer) -> None:
    jobs = await store.producer.enqueue([Envelope(kind="mail") for _ in range(50)])
    ids = [job.id for job in jobs]
    secrets.SystemRandom().shuffle(ids)
    mixed = [job_id for pair in zip(ids, (f"no-{i}" for i in ids), strict=True) for job_id in pair]
    report = await store.control.act("cancel", mixed)
    assert report.succeeded == ids
    assert [failure.id for failure in report.failed] == mixed[1::2]


@pytest.mark.parametrize("action", BULK_ACTIONS)
async def test_an_id_that_stands_twice(
    store: Store, observer: Observer, action: OperatorAction
) -> None:
    state = State.ARCHIVED if action is OperatorAction.RETRY else State.AVAILABLE
    job_id = await bring(store, observer, Envelope(kind="mail"), state)
    report = await store.control.act(action, [job_id, "nobody", job_id, "nobody"])
    again = {
        OperatorAction.RETRY: refusal(action, job_id, "available").message,
        OperatorAction.CANCEL: refusal(action, job_id, "cancelled").message,
        OperatorAction.DELETE: f"not found: job {job_id}",
    }[action]
    missing = ActionFailure("nobody", "not found: job nobody")
    assert report.succeeded == [job_id]
    assert report.failed == [missing, ActionFailure(job_id, again), missing]


async def test_archive_is_refused_job_by_job(store: Store) -> None:
    report = await store.control.act("archive", ["a", "b"])
    reason = "operator_archive is not in the transition table"
    assert (report.succeeded, report.failed) == (
        [],
        [ActionFailure("a", reason), ActionFailure("b", reason)],
    )


@pytest.mark.parametrize(
    ("action", "ids", "text"),
    [
        ("explode", ["x"] * 1_001, "at most 1000 ids per call"),
        ("explode", ["x"] * 1_000, "unknown action `explode`"),
        ("explode", [], "unknown action `explode`"),
        ("promote", ["x"], "unknown action `promote`"),
        ("", ["x"], "unknown action ``"),
        ("retry", ["x", "a\0"], "ids must not contain NUL"),
    ],
)
async def test_lists_that_are_refused(store: Store, action: str, ids: list[str], text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await store.control.act(action, ids)
    assert refused.value.message == text


@pytest.mark.parametrize("action", BULK_ACTIONS)
async def test_no_ids(store: Store, action: OperatorAction) -> None:
    report = await store.control.act(action, [])
    assert (report.succeeded, report.failed) == ([], [])


async def test_bc_43_a_clash_fails_alone(store: Store, observer: Observer) -> None:
    ids = [
        await bring(store, observer, Envelope(kind="mail", unique_key=b"%d" % n), State.ARCHIVED)
        for n in range(10)
    ]
    [holder] = await store.producer.enqueue([Envelope(kind="mail", unique_key=b"4")])
    report = await store.control.act("retry", ids)
    assert report.succeeded == ids[:4] + ids[5:]
    reason = f"duplicate unique key; existing job {holder.id}"
    assert report.failed == [ActionFailure(ids[4], reason)]
    assert await state_of(observer, ids[4]) == "archived"
    await assert_lanes(observer)


async def test_of_several_with_one_key_the_first_wins(store: Store, observer: Observer) -> None:
    ids = [
        await bring(store, observer, Envelope(kind="mail", unique_key=b"k"), State.ARCHIVED)
        for _ in range(3)
    ]
    report = await store.control.act("retry", [ids[1], ids[2], ids[0]])
    reason = f"duplicate unique key; existing job {ids[1]}"
    assert report.succeeded == [ids[1]]
    assert report.failed == [ActionFailure(ids[2], reason), ActionFailure(ids[0], reason)]


async def test_an_outage_fails_the_whole_list(open_store: OpenStore) -> None:
    store = open_store(dsn="postgresql://postgres@127.0.0.1:1/postgres")
    with pytest.raises(StoreUnavailable):
        await store.control.act("retry", ["a", "b"])


async def test_an_outage_in_the_middle_leaves_nothing_done(
    open_store: OpenStore, observer: Observer, headgate_database: str
) -> None:
    store = open_store(lock_timeout_ms=50)
    jobs = await store.producer.enqueue([Envelope(kind="mail") for _ in range(5)])
    ids = sorted(job.id for job in jobs)
    async with somebody(headgate_database) as other:
        await other.execute("SELECT FROM headgate_job WHERE ulid = $1 FOR UPDATE", ids[3])
        with pytest.raises(StoreUnavailable, match="lock timed out"):
            await store.control.act("cancel", ids)
    assert {await state_of(observer, job_id) for job_id in ids} == {"available"}


async def test_lists_that_share_jobs_do_not_deadlock(
    open_store: OpenStore, observer: Observer
) -> None:
    stores = [open_store(pool_size=1) for _ in range(4)]
    jobs = await stores[0].producer.enqueue([Envelope(kind="mail") for _ in range(300)])
    ids = [job.id for job in jobs]

    async def act(store: Store, order: list[str]) -> int:
        return len((await store.control.act("cancel", order)).succeeded)

    orders = [ids, ids[::-1], ids[100:] + ids[:100], ids[::2] + ids[1::2]]
    done = await asyncio.gather(
        *(act(store, order) for store, order in zip(stores, orders, strict=True))
    )
    assert sum(done) == 300
    for store in stores:
        await store.close()
    assert await deadlocks(observer) == 0


async def test_a_thousand_ids_in_a_few_statements(store: Store, observer: Observer) -> None:
    jobs = await store.producer.enqueue([Envelope(kind="mail") for _ in range(1_000)])
    ids = [job.id for job in jobs]
    for action in ("cancel", "retry", "delete"):
        async with asyncio.timeout(10):
            report = await store.control.act(action, ids)
        assert (report.succeeded, report.failed) == (ids, [])
        await assert_lanes(observer)
    assert await observer.fetchval("SELECT count(*) FROM headgate_job") == 0


class TestKeyTakenMeanwhile:
    """The key is taken by a job that the retry cannot see when it looks for one."""

    @pytest.mark.parametrize("window_ms", [0, 60_000])
    async def test_the_newcomer_is_named(
        self, store: Store, observer: Observer, headgate_database: str, window_ms: int
    ) -> None:
        envelope = Envelope(kind="mail", unique_key=b"k")
        ids = [await bring(store, observer, envelope, State.ARCHIVED)]
        ids += [await bring(store, observer, Envelope(kind="mail"), State.ARCHIVED)]
        key = await observer.fetchval("SELECT unique_key FROM headgate_job WHERE ulid = $1", ids[0])
        async with somebody(headgate_database) as other:
            await insert_holder(other, key, window_ms)
            acting = asyncio.create_task(store.control.act("retry", ids))
            await blocked(observer)
        report = await asyncio.wait_for(acting, 10)
        assert report.succeeded == [ids[1]]
        reason = "duplicate unique key; existing job newcomer"
        assert report.failed == [ActionFailure(ids[0], reason)]
        assert await state_of(observer, ids[0]) == "archived"

    async def test_a_newcomer_that_is_rolled_back_is_no_holder(
        self, store: Store, observer: Observer, headgate_database: str
    ) -> None:
        envelope = Envelope(kind="mail", unique_key=b"k")
        job_id = await bring(store, observer, envelope, State.ARCHIVED)
        key = await observer.fetchval("SELECT unique_key FROM headgate_job")
        other = await asyncpg.connect(headgate_database)
        transaction = other.transaction()
        await transaction.start()
        await insert_holder(other, key)
        acting = asyncio.create_task(store.control.act("retry", [job_id]))
        await blocked(observer)
        await transaction.rollback()
        report = await asyncio.wait_for(acting, 10)
        await other.close()
        assert report.succeeded == [job_id]
        await assert_lanes(observer)


async def insert_holder(session: Observer, key: bytes, window_ms: int = 0) -> None:
    await session.execute(
        "INSERT INTO headgate_job (ulid, kind, payload, fingerprint, enqueued_at_ms,"
        " scheduled_at_ms, unique_key, unique_expires_at_ms)"
        " VALUES ('newcomer', 'mail', '', '', 1, 1, $1,"
        " nullif($2, 0) + (extract(epoch from clock_timestamp()) * 1000)::bigint)",
        key,
        window_ms,
    )


class TestKeyHeld:
    """Who holds a key that a retry would take."""

    async def test_a_live_job(self, store: Store, observer: Observer) -> None:
        envelope = Envelope(kind="mail", unique_key=b"k")
        job_id = await bring(store, observer, envelope, State.ARCHIVED)
        [holder] = await store.producer.enqueue([Envelope(kind="mail", unique_key=b"k")])
        with pytest.raises(DuplicateJob) as clash:
            await store.control.retry(job_id)
        assert (clash.value.existing_id, clash.value.replaced) == (holder.id, False)
        assert await state_of(observer, job_id) == "archived"
        await store.control.cancel(holder.id)
        await store.control.retry(job_id)
        assert await state_of(observer, job_id) == "available"

    async def test_an_open_throttle_window(self, store: Store, observer: Observer) -> None:
        envelope = Envelope(kind="mail", unique_key=b"k")
        job_id = await bring(store, observer, envelope, State.ARCHIVED)
        throttled = Envelope(kind="mail", unique_key=b"k", unique_window_ms=HOUR_MS)
        holder = await bring(store, observer, throttled, State.COMPLETED)
        with pytest.raises(DuplicateJob) as clash:
            await store.control.retry(job_id)
        assert clash.value.existing_id == holder
        await observer.execute(
            "UPDATE headgate_job SET unique_expires_at_ms = 1 WHERE ulid = $1", holder
        )
        await store.control.retry(job_id)
        assert await state_of(observer, job_id) == "available"

    async def test_its_own_throttle_window_is_no_obstacle(
        self, store: Store, observer: Observer
    ) -> None:
        throttled = Envelope(kind="mail", unique_key=b"k", unique_window_ms=HOUR_MS)
        job_id = await bring(store, observer, throttled, State.ARCHIVED)
        await store.control.retry(job_id)
        assert await state_of(observer, job_id) == "available"

    async def test_another_kind_has_other_keys(self, store: Store, observer: Observer) -> None:
        envelope = Envelope(kind="mail", unique_key=b"k")
        job_id = await bring(store, observer, envelope, State.ARCHIVED)
        await store.producer.enqueue([Envelope(kind="report", unique_key=b"k")])
        await store.control.retry(job_id)
        assert await state_of(observer, job_id) == "available"

    @pytest.mark.parametrize("action", ["cancel", "delete"])
    async def test_bc_45_the_key_is_free_at_once(
        self, store: Store, observer: Observer, action: str
    ) -> None:
        [job] = await store.producer.enqueue([Envelope(kind="mail", unique_key=b"k")])
        await store.control.act(action, [job.id])
        await store.producer.enqueue([Envelope(kind="mail", unique_key=b"k")])


async def test_actions_within_a_transaction_of_somebody(store: Store, observer: Observer) -> None:
    """What fails in it leaves it usable, and nothing is seen or announced before its commit."""
    archived = await bring(store, observer, Envelope(kind="mail"), State.ARCHIVED)
    envelope = Envelope(kind="mail", unique_key=b"k")
    clashing = await bring(store, observer, envelope, State.ARCHIVED)
    await store.producer.enqueue([Envelope(kind="mail", unique_key=b"k")])
    async with store.hot_path.transaction() as session:
        control = store.within(session).control
        await control.retry(archived)
        for job_id, error in ((archived, InvalidRequest), (clashing, DuplicateJob)):
            with pytest.raises(error):
                await control.retry(job_id)
        report = await control.act("cancel", [archived, clashing])
        assert report.succeeded == [archived]
        await control.retry(archived)
        assert await state_of(observer, archived) == "archived"
    assert await state_of(observer, archived) == "available"
    await assert_lanes(observer)
