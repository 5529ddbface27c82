"""Running statements: time limits, repetition, cancellation, and servers that go away."""

import asyncio
import time
from typing import Any

import asyncpg
import pytest
from sqlalchemy import Executable, func, literal, literal_column, select, text

from headgate.model.errors import BackendError, InvalidRequest, StoreUnavailable
from headgate.store import connection
from headgate.store import database as database_module
from headgate.store.database import GATE_SETTINGS, Database, Session
from headgate.store.settings import StoreSettings
from headgate.store.store import Store
from tests.store.conftest import OpenStore
from tests.store.proxy import Wire, listening, through
from tests.store.rows import Observer
from tests.store.waiting import until

ONE: Executable = select(literal(1).label("one"))

_SESSIONS = (
    "FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'headgate'"
)


def sleep(seconds: float) -> Executable:
    return select(func.pg_sleep(literal(seconds)))


async def sessions(observer: Observer) -> int:
    count: int = await observer.fetchval("SELECT count(*) " + _SESSIONS)
    return count


async def until_asleep(observer: Observer) -> None:
    """Waits for a session that runs pg_sleep."""
    asleep = "SELECT count(*) " + _SESSIONS + " AND wait_event = 'PgSleep'"
    await until(lambda: observer.fetchval(asleep))


async def eventually(work: Any, *, seconds: float = 10) -> Any:
    """What the work returns once the store is available again."""
    async with asyncio.timeout(seconds):
        while True:
            try:
                return await work()
            except StoreUnavailable:
                await asyncio.sleep(0.01)


async def test_bc_71_it_survives_the_end_of_all_its_sessions(
    store: Store, observer: Observer
) -> None:
    for _ in range(3):
        await asyncio.gather(*(store.database.fetch(sleep(0.01)) for _ in range(4)))
        assert await sessions(observer) == 4
        await observer.execute("SELECT pg_terminate_backend(pid) " + _SESSIONS)
        failures = 0
        for _ in range(10):
            try:
                await store.database.fetch(ONE)
            except StoreUnavailable:
                failures += 1
        assert failures <= 4
        await store.database.fetch(ONE)


async def test_a_session_that_ends_under_a_statement(store: Store, observer: Observer) -> None:
    running = asyncio.create_task(store.database.fetch(sleep(30)))
    await until_asleep(observer)
    await observer.execute("SELECT pg_terminate_backend(pid) " + _SESSIONS)
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(running, 10)
    [row] = await eventually(lambda: store.database.fetch(ONE))
    assert row["one"] == 1


async def test_a_statement_has_a_time_limit(open_store: OpenStore) -> None:
    store = open_store(statement_timeout_ms=100, pool_size=1)
    started = time.monotonic()
    with pytest.raises(StoreUnavailable, match="statement timed out"):
        await store.database.fetch(sleep(30))
    assert time.monotonic() - started < 5
    await store.database.fetch(ONE)


async def test_a_lock_has_a_shorter_one(open_store: OpenStore, observer: Observer) -> None:
    store = open_store(lock_timeout_ms=100, pool_size=1)
    async with observer.transaction():
        await observer.execute("LOCK TABLE headgate_duty")
        with pytest.raises(StoreUnavailable, match="lock timed out"):
            await store.duties.claim("reclaimer", "me", 1_000)
    assert await store.duties.claim("reclaimer", "me", 1_000)


@pytest.mark.parametrize("losses", [1, 4])
async def test_a_lost_race_is_run_again_whole(
    store: Store, observer: Observer, losses: int
) -> None:
    attempts = 0

    async def work(session: Session) -> int:
        nonlocal attempts
        attempts += 1
        await session.fetch(text("INSERT INTO headgate_effect VALUES ('once', 1)"))
        if attempts <= losses:
            raise asyncpg.SerializationError("could not serialize access")
        return attempts

    assert await store.database.transact(work) == losses + 1
    assert await observer.fetchval("SELECT count(*) FROM headgate_effect") == 1


async def test_a_race_is_not_run_for_ever(store: Store, observer: Observer) -> None:
    attempts = 0

    async def work(session: Session) -> None:
        nonlocal attempts
        attempts += 1
        await session.fetch(text("INSERT INTO headgate_effect VALUES ('once', 1)"))
        raise asyncpg.DeadlockDetectedError("deadlock detected")

    with pytest.raises(StoreUnavailable, match="kept losing"):
        await store.database.transact(work)
    assert attempts == 5
    assert await observer.fetchval("SELECT count(*) FROM headgate_effect") == 0


async def test_a_real_deadlock_ends_well_for_both(store: Store, observer: Observer) -> None:
    await observer.execute("INSERT INTO headgate_effect VALUES ('a', 0), ('b', 0)")
    both_hold_one = asyncio.Barrier(2)
    first_attempts = {"ab", "ba"}

    async def update(order: str) -> None:
        async def work(session: Session) -> None:
            for key in order:
                await session.fetch(
                    text(
                        "UPDATE headgate_effect SET at_ms = at_ms + 1 WHERE key = :key"
                    ).bindparams(key=key)
                )
                if order in first_attempts:
                    first_attempts.discard(order)
                    await both_hold_one.wait()

        await store.database.transact(work)

    await asyncio.wait_for(asyncio.gather(update("ab"), update("ba")), 20)
    values = await observer.fetch("SELECT at_ms FROM headgate_effect")
    assert [row["at_ms"] for row in values] == [2, 2]


async def test_a_migration_under_a_prepared_statement(store: Store, observer: Observer) -> None:
    statement = text("SELECT * FROM headgate_effect")

    async def work(session: Session) -> int:
        return len(await session.fetch(statement))

    assert await store.database.transact(work) == 0
    await observer.execute("ALTER TABLE headgate_effect ADD COLUMN note text")
    assert await store.database.transact(work) == 0
    await observer.execute("ALTER TABLE headgate_effect DROP COLUMN note")
    assert await store.database.fetch(statement) == []


async def test_an_error_of_the_caller_rolls_back_and_passes(
    open_store: OpenStore, observer: Observer
) -> None:
    store = open_store(pool_size=1)

    async def work(session: Session) -> None:
        await session.fetch(text("INSERT INTO headgate_effect VALUES ('x', 1)"))
        raise InvalidRequest("no")

    with pytest.raises(InvalidRequest):
        await store.database.transact(work)

    async def fail() -> None:
        async with store.database.transaction() as session:
            await session.fetch(text("INSERT INTO headgate_effect VALUES ('x', 1)"))
            await session.fetch(text("SELECT 1 / 0"))

    with pytest.raises(BackendError, match="division by zero"):
        await fail()
    assert await observer.fetchval("SELECT count(*) FROM headgate_effect") == 0
    async with store.database.transaction() as session:
        await session.fetch(text("INSERT INTO headgate_effect VALUES ('x', 1)"))
    assert await observer.fetchval("SELECT count(*) FROM headgate_effect") == 1


async def test_a_cancelled_caller_leaves_the_pool_as_it_was(
    open_store: OpenStore, observer: Observer
) -> None:
    store = open_store(pool_size=1)
    for _ in range(3):
        running = asyncio.create_task(store.database.fetch(sleep(30)))
        await until_asleep(observer)
        waiting = asyncio.create_task(store.database.fetch(ONE))
        given_up = asyncio.create_task(store.database.fetch(ONE))
        await asyncio.sleep(0)
        given_up.cancel()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        [row] = await asyncio.wait_for(waiting, 5)
        assert row["one"] == 1
        await observer.execute(
            "SELECT pg_terminate_backend(pid) " + _SESSIONS + " AND wait_event = 'PgSleep'"
        )


async def test_a_full_pool_is_unavailable_in_time(open_store: OpenStore) -> None:
    store = open_store(pool_size=1, connect_timeout_ms=200)
    async with store.database.transaction():
        started = time.monotonic()
        with pytest.raises(StoreUnavailable, match="no connection"):
            await store.database.fetch(ONE)
        assert 0.1 < time.monotonic() - started < 2
    await store.database.fetch(ONE)


async def test_nobody_listens(open_store: OpenStore) -> None:
    away = open_store(dsn="postgresql://nobody@127.0.0.1:1/nothing")
    with pytest.raises(StoreUnavailable, match="no connection"):
        await away.inspection.ping()


async def test_a_server_that_accepts_and_says_nothing(
    open_store: OpenStore, headgate_database: str
) -> None:
    wire = Wire(headgate_database)
    wire.alive.clear()
    async with listening(wire) as port:
        store = open_store(dsn=through(headgate_database, port), connect_timeout_ms=300)
        started = time.monotonic()
        with pytest.raises(StoreUnavailable, match="no connection"):
            await store.inspection.ping()
        assert time.monotonic() - started < 3


async def test_a_connection_that_falls_silent(
    open_store: OpenStore, headgate_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "_GRACE_MS", 200)
    wire = Wire(headgate_database)
    async with listening(wire) as port:
        store = open_store(
            dsn=through(headgate_database, port),
            statement_timeout_ms=200,
            connect_timeout_ms=300,
            pool_size=1,
        )
        await store.inspection.ping()
        wire.alive.clear()
        started = time.monotonic()
        with pytest.raises(StoreUnavailable, match="no connection: timed out"):
            await store.inspection.ping()
        assert time.monotonic() - started < 3
        wire.alive.set()
        await eventually(store.inspection.ping)
        assert wire.connections >= 2


async def test_a_standby_is_an_outage(store: Store, observer: Observer) -> None:
    await store.inspection.ping()
    await observer.execute("SELECT pg_terminate_backend(pid) " + _SESSIONS)
    name = await observer.fetchval("SELECT quote_ident(current_database())")
    await observer.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    await eventually(store.inspection.ping)
    with pytest.raises(StoreUnavailable, match="read-only"):
        await store.duties.claim("reclaimer", "me", 1_000)


async def test_sessions_are_set_up(store: Store, observer: Observer) -> None:
    names = ["statement_timeout", "lock_timeout", "jit", "application_name"]
    settings = select(*(func.current_setting(name).label(name) for name in names))
    [row] = await store.database.fetch(settings)
    assert dict(row) == {
        "statement_timeout": "30s",
        "lock_timeout": "10s",
        "jit": "off",
        "application_name": "headgate",
    }
    gate_settings = select(*(func.current_setting(name).label(name) for name in GATE_SETTINGS))
    [row] = await store.hot_path.fetch(gate_settings)
    assert dict(row) == GATE_SETTINGS


async def test_one_statement_is_one_round_trip_and_stays_prepared(store: Store) -> None:
    prepared = text("SELECT count(*) AS n FROM pg_prepared_statements")
    for _ in range(3):
        [row] = await store.database.fetch(ONE)
    [row] = await store.database.fetch(prepared)
    [again] = await store.database.fetch(prepared)
    assert row["n"] == again["n"] == 2


async def test_no_connection_keeps_statements_without_end(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "KEPT", 2)
    kept = text("SELECT count(*) AS n FROM pg_prepared_statements")
    for column in ("a", "b", "c", "d"):
        await store.database.fetch(select(literal_column("1").label(column)))
    [row] = await store.database.fetch(kept)
    assert row["n"] <= 3


async def test_closing_leaves_no_session(open_store: OpenStore, observer: Observer) -> None:
    store = open_store()
    await store.inspection.ping()
    await store.duties.claim("reclaimer", "me", 1_000)
    await store.close()
    await until(lambda: observer.fetchval("SELECT count(*) = 0 " + _SESSIONS))
    with pytest.raises(StoreUnavailable):
        await store.inspection.ping()


async def test_opening_asks_nobody() -> None:
    away = Database(StoreSettings(dsn="postgresql://nobody@127.0.0.1:1/nothing"))
    await away.close()
