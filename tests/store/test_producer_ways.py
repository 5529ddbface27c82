"""Whichever statement a batch gets in by, its rows are the same."""

import asyncio
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from headgate.model.envelope import Envelope
from headgate.store.enqueueing import Batch, guarded_insert, short_insert
from headgate.store.settings import StoreSettings
from headgate.store.store import Store
from tests.store.rows import Observer

_NAMES = st.sampled_from(["", "a", "a,b", "a\x1fb", "é"])
_PAYLOADS = st.sampled_from([b"", b"{}", b"a\x1fb", b"a\0b", b"\xff", b"\\x41", b"x" * 300])
_LANES = st.fixed_dictionaries(
    {"queue": st.sampled_from(["default", "a,b"])},
    optional={"partition_key": _NAMES, "rate_class": _NAMES, "priority": st.integers(-1, 1)},
)
_JOBS = st.fixed_dictionaries(
    {"kind": st.sampled_from(["mail", "post"]), "payload": _PAYLOADS},
    optional={
        "fingerprint": _NAMES,
        "schema_version": st.integers(1, 3),
        "max_attempts": st.integers(1, 3),
        "weight": st.integers(1, 3),
        "timeout_ms": st.integers(0, 2),
        "retention_ms": st.integers(0, 2),
        "headers": st.dictionaries(_NAMES, _NAMES, max_size=2),
    },
)

_ROWS = """
SELECT to_jsonb(job) - 'id' - 'ulid' - 'enqueued_at_ms' - 'scheduled_at_ms' FROM headgate_job AS job
WHERE enqueued_at_ms = scheduled_at_ms ORDER BY id
"""


class Ways:
    """One store and its rows, for all examples."""

    def __init__(self, runner: asyncio.Runner, store: Store, observer: Observer) -> None:
        self.runner = runner
        self._store = store
        self._observer = observer

    async def compare(self, envelopes: list[Envelope]) -> None:
        hot_path = self._store.hot_path
        await self._store.producer.enqueue(envelopes)
        public = await self._written()
        await hot_path.fetch(*guarded_insert(Batch.of(envelopes)))
        assert await self._written() == public
        short = short_insert(Batch.of(envelopes), None)
        assert short is not None
        assert await hot_path.write(*short) == len(envelopes)
        assert await self._written() == public

    async def _written(self) -> list[Any]:
        rows = [row[0] for row in await self._observer.fetch(_ROWS)]
        await self._observer.execute("DELETE FROM headgate_job")
        return rows


@pytest.fixture
def ways(headgate_database: str) -> Iterator[Ways]:
    with asyncio.Runner() as runner:
        store = Store(StoreSettings(dsn=headgate_database, notify=False))
        observer = runner.run(asyncpg.connect(headgate_database))
        yield Ways(runner, store, observer)
        runner.run(observer.close())
        runner.run(store.close())


@given(lane=_LANES, jobs=st.lists(_JOBS, min_size=1, max_size=4))
@example(lane={"queue": "q"}, jobs=[{"kind": "mail", "payload": b"1", "fingerprint": "a\x1fb"}] * 2)
@example(lane={"queue": "default"}, jobs=[{"kind": "mail", "payload": b"\\x41"}] * 2)
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_every_way_writes_the_same_rows(
    lane: dict[str, Any], jobs: list[dict[str, Any]], ways: Ways
) -> None:
    ways.runner.run(ways.compare([Envelope(**lane, **job) for job in jobs]))
