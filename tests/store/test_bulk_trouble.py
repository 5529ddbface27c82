"""Operations in a world of others: held rows, failing batches, a database that goes away."""

import asyncio
import logging
from contextlib import suppress

import asyncpg
import pytest

from headgate.model.errors import StoreUnavailable
from headgate.store import bulk
from headgate.store.store import Store
from tests.store.conftest import OpenStore
from tests.store.races import blocked, somebody
from tests.store.rows import Observer
from tests.store.test_bulk import begin, now, run, states
from tests.store.test_operations import fill


class TestHeldByOthers:
    """Jobs that somebody holds when their turn comes."""

    @pytest.mark.parametrize("batch", [2, 100])
    async def test_they_get_another_turn(
        self, store: Store, observer: Observer, headgate_database: str, batch: int
    ) -> None:
        ids = await fill(store, 20)
        held = [ids[3], ids[4], ids[19]]
        operation = await begin(store, "cancel", queue="default")
        async with somebody(headgate_database) as other:
            await other.execute("SELECT FROM headgate_job WHERE ulid = ANY($1) FOR UPDATE", held)
            await asyncio.wait_for(run(store, operation, batch=batch), 10)
            current = await now(store, operation)
            assert (current.status, current.affected) == ("running", 17)
        await run(store, operation, batch=batch)
        current = await now(store, operation)
        assert (current.status, current.affected) == ("completed", 20)
        assert await states(observer) == {"cancelled": 20}

    async def test_one_that_has_ended_meanwhile_is_let_go(
        self, store: Store, observer: Observer, headgate_database: str
    ) -> None:
        ids = await fill(store, 4)
        operation = await begin(store, "cancel", queue="default")
        async with somebody(headgate_database) as other:
            await other.execute("DELETE FROM headgate_job WHERE ulid = $1", ids[0])
            await other.execute(
                "UPDATE headgate_job SET state = 'archived' WHERE ulid = $1", ids[1]
            )
            await run(store, operation)
            assert (await now(store, operation)).status == "running"
        await run(store, operation)
        current = await now(store, operation)
        assert (current.status, current.affected) == ("completed", 2)

    async def test_not_too_many_are_noted(
        self,
        store: Store,
        observer: Observer,
        headgate_database: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(bulk, "SKIPPED_KEPT", 5)
        ids = await fill(store, 40)
        operation = await begin(store, "delete", queue="default")
        async with somebody(headgate_database) as other:
            await other.execute(
                "SELECT FROM headgate_job WHERE ulid = ANY($1) FOR UPDATE", ids[:30]
            )
            await run(store, operation, batch=3)
            noted = await observer.fetchval(
                "SELECT cardinality(skipped) FROM headgate_operation WHERE id = $1", operation.id
            )
            assert 5 <= noted < 8
        await run(store, operation, batch=3)
        assert (await now(store, operation)).affected == 40

    async def test_the_others_do_not_wait(
        self, store: Store, observer: Observer, headgate_database: str
    ) -> None:
        [held] = await fill(store, 1, queue="held")
        await fill(store, 5, queue="free")
        first = await begin(store, "cancel", queue="held")
        second = await begin(store, "cancel", queue="free")
        async with somebody(headgate_database) as other:
            await other.execute("SELECT FROM headgate_job WHERE ulid = $1 FOR UPDATE", held)
            await run(store, second)
            assert (await now(store, second)).status == "completed"
            assert (await now(store, first)).status == "running"


class TestFailures:
    """What a batch may run into."""

    async def test_a_failure_is_told_without_the_words_of_the_driver(
        self, store: Store, observer: Observer, caplog: pytest.LogCaptureFixture
    ) -> None:
        await fill(store, 3, queue="bad")
        await fill(store, 3, queue="good")
        await observer.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'secret words'; END $$"
        )
        await observer.execute(
            "CREATE TRIGGER refuse BEFORE DELETE ON headgate_job FOR EACH ROW"
            " WHEN (OLD.queue = 'bad') EXECUTE FUNCTION refuse()"
        )
        bad = await begin(store, "delete", queue="bad")
        good = await begin(store, "delete", queue="good")
        with caplog.at_level(logging.ERROR):
            await run(store, good)
        failed = await now(store, bad)
        assert (failed.status, failed.affected) == ("failed", 0)
        assert failed.error is not None
        assert "secret" not in failed.error
        assert "internal error" in failed.error
        assert bad.id in caplog.text
        assert "secret words" in caplog.text
        assert (await now(store, good)).status == "completed"

    async def test_an_operation_that_nobody_understands(
        self, store: Store, observer: Observer
    ) -> None:
        operation = await begin(store, "delete", queue="q")
        for change in (
            "UPDATE headgate_operation SET status = 'pending', action = 'explode'",
            "UPDATE headgate_operation SET status = 'pending', action = 'retry', selector = '[]'",
            "UPDATE headgate_operation SET status = 'pending', selector = '{\"queue\": \"q\"}',"
            " cursor_state = 'running'",
        ):
            await observer.execute(change)
            await store.operations.run_pending(10)
            assert (await now(store, operation)).status == "failed"

    async def test_an_outage_leaves_it_pending(
        self, open_store: OpenStore, observer: Observer, headgate_database: str
    ) -> None:
        store = open_store(statement_timeout_ms=200)
        await fill(store, 3, queue="slow")
        await fill(store, 3, queue="fast")
        slow = await begin(store, "delete", queue="slow")
        fast = await begin(store, "delete", queue="fast")
        await observer.execute(
            "CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN PERFORM pg_sleep(5); RETURN OLD; END $$"
        )
        await observer.execute(
            "CREATE TRIGGER linger BEFORE DELETE ON headgate_job FOR EACH ROW"
            " WHEN (OLD.queue = 'slow') EXECUTE FUNCTION linger()"
        )
        with pytest.raises(StoreUnavailable):
            await store.operations.run_pending(10)
        current = await now(store, slow)
        assert (current.status, current.affected, current.error) == ("pending", 0, None)
        # The next pass begins behind it.
        with suppress(StoreUnavailable):
            await store.operations.run_pending(10)
        assert (await now(store, fast)).affected == 3

    async def test_a_batch_that_is_cut_off_did_nothing(
        self, store: Store, observer: Observer
    ) -> None:
        await fill(store, 10)
        operation = await begin(store, "cancel", queue="default")
        other = await asyncpg.connect(store.settings.dsn)
        await other.execute("BEGIN; LOCK TABLE headgate_operation IN SHARE MODE")
        running = asyncio.create_task(store.operations.run_pending(5))
        await blocked(observer)
        await observer.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        with pytest.raises(StoreUnavailable):
            await running
        await other.close()
        assert await states(observer) == {"available": 10}
        await run(store, operation)
        assert (await now(store, operation)).affected == 10
