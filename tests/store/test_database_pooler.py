"""Behind a transaction pooler: no session is ours, and nothing may be left in one."""

import asyncio

import pytest
from sqlalchemy import func, select, text

from headgate.model.errors import StoreUnavailable
from headgate.store.database import GATE_SETTINGS
from tests.store import tour
from tests.store.conftest import OpenStore
from tests.store.proxy import Pooler, listening, through
from tests.store.rows import Observer

_SETTINGS = ["statement_timeout", "lock_timeout", "jit", *GATE_SETTINGS]


async def test_bc_73_everything_runs_behind_a_pooler(
    open_store: OpenStore, headgate_database: str
) -> None:
    pooler = Pooler(headgate_database, sessions=2)
    async with listening(pooler) as port:
        store = open_store(dsn=through(headgate_database, port), pooler=True, pool_size=4)
        await tour.take(store)
        await asyncio.gather(*(store.inspection.ping() for _ in range(20)))
        assert pooler.transactions > 40
        await store.close()


async def test_without_a_pooler_in_between_it_runs_as_well(open_store: OpenStore) -> None:
    await tour.take(open_store(pooler=True))


async def test_sessions_stay_as_they_were(open_store: OpenStore, observer: Observer) -> None:
    store = open_store(pooler=True, pool_size=1)
    await tour.take(store)
    settings = select(*(func.current_setting(name).label(name) for name in _SETTINGS))
    defaults = await observer.fetchrow(
        str(settings.compile(compile_kwargs={"literal_binds": True}))
    )
    async with store.hot_path._connection() as connection:
        rows = await connection.fetch(str(settings.compile(compile_kwargs={"literal_binds": True})))
        assert rows == [defaults]
        assert await connection.fetchval("SELECT count(*) FROM pg_prepared_statements") == 0
        assert await connection.fetchval("SELECT count(*) FROM pg_listening_channels()") == 0


async def test_settings_come_with_each_transaction(open_store: OpenStore) -> None:
    store = open_store(pooler=True, statement_timeout_ms=123, lock_timeout_ms=45)
    settings = select(*(func.current_setting(name).label(name) for name in _SETTINGS))
    [row] = await store.hot_path.fetch(settings)
    expected = {"statement_timeout": "123ms", "lock_timeout": "45ms", "jit": "off"}
    assert dict(row) == expected | GATE_SETTINGS
    with pytest.raises(StoreUnavailable, match="statement timed out"):
        await store.database.fetch(text("SELECT pg_sleep(30)"))
    async with store.database.transaction() as session:
        [row] = await session.fetch(settings)
    assert row["statement_timeout"] == "123ms"


async def test_waiting_is_sleeping(open_store: OpenStore, observer: Observer) -> None:
    store = open_store(pooler=True)
    assert not store.listener.enabled
    with store.listener.subscribe(["default"]) as subscription:
        store.notifier.wake(["default"])
        assert await subscription.wait(50) == set()
    assert (
        await observer.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
            " AND datname = current_database()"
        )
        == 0
    )
