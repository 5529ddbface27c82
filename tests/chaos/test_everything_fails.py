"""Workers die, stop and hang, sessions are ended, the server restarts, the network drops, delays
and falls silent, under load with every policy: nothing is lost, nothing happens twice.

`HEADGATE_CHAOS_SECONDS` makes it longer.
"""

import asyncio
import os
import random
import shutil
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import asyncpg
import pytest

from headgate.local import LocalServer, temporary_directory
from headgate.model.envelope import Envelope
from headgate.model.errors import StoreUnavailable
from headgate.store.migration import upgrade
from headgate.store.settings import StoreSettings
from headgate.store.store import Store
from tests.chaos.everything import KINDS, QUEUES
from tests.chaos.fleet import Fleet, fleet
from tests.chaos.network import Network
from tests.store.backlog import bucket, ceiling, weigh
from tests.store.proxy import listening, through
from tests.store.rows import assert_lanes
from tests.store.waiting import until

SECONDS = float(os.environ.get("HEADGATE_CHAOS_SECONDS", "60"))
# What the limits let through meanwhile is less than what comes in.
PATIENCE_SECONDS = 120 + SECONDS / 2
WORKERS = 3
LEASE_MS = 3_000
CEILING = 2
# Few jobs that take long meet as many troubles, ceilings and limits as many that take no time, and
# leave the processors to the tests beside this one.
PAUSE_SECONDS = 1.2
LIMIT_PER_SECOND, BURST = 3, 3
# What is committed must survive the end of the server, though not that of the machine.
SETTINGS = {"fsync": "off", "full_page_writes": "off", "max_connections": "200"}
ARGUMENTS = (
    "tests.chaos.everything:app",
    f"--queues={','.join(QUEUES)}",
    "--concurrency=8",
    f"--lease-ms={LEASE_MS}",
    "--log-level=critical",
)

_DONE = """
SELECT NOT EXISTS (SELECT FROM headgate_job
WHERE state NOT IN ('completed', 'archived', 'cancelled', 'quarantined'))
"""
_OVER = """
SELECT partition_key, count(*) FROM headgate_job WHERE state = 'running' AND queue = 'narrow'
GROUP BY 1 HAVING count(*) > $1
"""
_TWICE = "SELECT job_id, count(*) FROM chaos_effect GROUP BY 1 HAVING count(*) > 1"
_MISSING = """
SELECT ulid FROM headgate_job WHERE kind = 'once' AND state = 'completed'
AND NOT EXISTS (SELECT FROM chaos_effect WHERE job_id = ulid)
"""
_HELD = "SELECT ulid FROM headgate_job WHERE (lease_id IS NULL) = (state = 'running')"
_TERMINATE = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' ORDER BY random() LIMIT 3
"""
_TERMS = {"plain": "plain", "metered": "metered", "step": "effects", "once": "narrow"}


@pytest.fixture
def server() -> Iterator[LocalServer]:
    """A server of its own, since it is restarted."""
    directory = temporary_directory("headgate-chaos-")
    server = LocalServer(directory, settings=SETTINGS)
    server.start()
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)


class Chaos:
    """One trouble after the other, and what the onlooker saw meanwhile."""

    def __init__(self, server: LocalServer, network: Network, workers: Fleet) -> None:
        self._server = server
        self._network = network
        self._workers = workers
        self.violations: list[str] = []
        self.troubles: dict[str, int] = {}

    async def reign(self, seconds: float) -> None:
        troubles: list[Callable[[], Awaitable[None]]] = [
            self._kill,
            self._terminate,
            self._suspend,
            self._end_sessions,
            self._cut,
            self._silence,
            self._slowness,
        ]
        until = time.monotonic() + seconds
        restart_at = time.monotonic() + seconds / 2
        while time.monotonic() < until:
            trouble = random.choice(troubles)
            if time.monotonic() > restart_at:
                trouble, restart_at = self._restart, until
            name = trouble.__name__
            self.troubles[name] = self.troubles.get(name, 0) + 1
            await trouble()
            # The rhythm of the troubles, not a wait for something.
            await asyncio.sleep(4 * random.random())

    async def watch(self) -> None:
        """Looks for ceilings that are exceeded, as often as the server lets it."""
        while True:
            with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError):
                connection = await asyncpg.connect(self._dsn, command_timeout=5)
                try:
                    while True:
                        for row in await connection.fetch(_OVER, CEILING):
                            self.violations.append(f"{row['count']} run in {row['partition_key']}")
                        await asyncio.sleep(0.1)
                finally:
                    connection.terminate()
            await asyncio.sleep(0.1)

    @property
    def _dsn(self) -> str:
        status = self._server.status()
        if status is None:
            raise OSError("the server is away")
        return status.dsn

    async def _kill(self) -> None:
        await asyncio.to_thread(self._workers.end_one, signal.SIGKILL)
        self._workers.start()

    async def _terminate(self) -> None:
        await asyncio.to_thread(self._workers.end_one, signal.SIGTERM)
        self._workers.start()

    async def _suspend(self) -> None:
        victim = self._workers.victim()
        victim.send_signal(signal.SIGSTOP)
        # Around the length of a lease, so that some are lost and some are not.
        await asyncio.sleep(random.uniform(0.5, 1.5) * LEASE_MS / 1000)
        victim.send_signal(signal.SIGCONT)

    async def _end_sessions(self) -> None:
        connection = await asyncpg.connect(self._dsn)
        await connection.execute(_TERMINATE)
        connection.terminate()

    async def _cut(self) -> None:
        self._network.cut()

    async def _silence(self) -> None:
        await self._network.be_silent(random.uniform(0.5, 1.2) * LEASE_MS / 1000)

    async def _slowness(self) -> None:
        await self._network.be_slow(2)

    async def _restart(self) -> None:
        await asyncio.to_thread(self._server.stop)
        status = await asyncio.to_thread(self._server.start)
        self._network.move(status.dsn)


class Producer:
    """Enqueues jobs whose ids it knows, again and again until the store says yes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.ids: list[str] = []

    async def run(self) -> None:
        number = 0
        while True:
            batch = []
            for _ in range(random.choice([1, 5, 20])):
                number += 1
                kind = random.choice(KINDS)
                batch.append(
                    Envelope(
                        id=f"chaos-{number}",
                        kind=kind,
                        queue=_TERMS[kind],
                        payload=b'{"number":%d}' % number,
                        partition_key=str(random.choice([0, 0, 1, 2, 3])),
                        rate_class="api" if kind == "metered" else "",
                        priority=random.choice([0, 0, 5]),
                        max_attempts=20,
                        retention_ms=3_600_000,
                    )
                )
            await self._insist(batch)
            self.ids += [job.id for job in batch]
            await asyncio.sleep(PAUSE_SECONDS)

    async def _insist(self, batch: list[Envelope]) -> None:
        while True:
            with suppress(StoreUnavailable):
                await self._store.producer.enqueue(batch)
                return
            await asyncio.sleep(0.1)


async def _prepare(dsn: str) -> None:
    await upgrade(dsn)
    observer = await asyncpg.connect(dsn)
    await observer.execute(
        "CREATE TABLE chaos_attempt (job_id text, rate_class text);"
        "CREATE TABLE chaos_effect (job_id text)"
    )
    await ceiling(observer, "narrow", CEILING)
    await bucket(observer, "api", LIMIT_PER_SECOND, burst=BURST)
    await weigh(observer, "effects", 3)
    await observer.close()


@pytest.mark.timeout(SECONDS + PATIENCE_SECONDS + 60)
async def test_nothing_is_lost_and_nothing_happens_twice(server: LocalServer) -> None:
    status = server.status()
    assert status is not None
    await _prepare(status.dsn)
    network = Network(status.dsn)
    async with listening(network) as port:
        dsn = through(status.dsn, port)
        async with Store(StoreSettings(dsn=dsn, statement_timeout_ms=5_000)) as store:
            with fleet(dsn, *ARGUMENTS) as workers:
                for _ in range(WORKERS):
                    workers.start()
                chaos = Chaos(server, network, workers)
                producer = Producer(store)
                started = time.monotonic()
                background = [
                    asyncio.create_task(producer.run()),
                    asyncio.create_task(chaos.watch()),
                ]
                await chaos.reign(SECONDS)
                background[0].cancel()
                await asyncio.wait(background[:1])
                observer = await asyncpg.connect(str(server.start().dsn))
                await _until_done(observer)
                seconds = time.monotonic() - started
                background[1].cancel()
                assert set(await asyncio.to_thread(workers.stop)) == {0}, "no way back to order"
            assert chaos.violations == []
            await _assert_whole(observer, producer.ids, seconds)
            while await store.upkeep.fold_ledger(20_000):
                pass
            await _assert_exact(observer)
            await observer.close()
    assert len(producer.ids) > 3 * SECONDS, chaos.troubles


async def _until_done(observer: Any) -> None:
    await until(lambda: observer.fetchval(_DONE), seconds=PATIENCE_SECONDS)


async def _assert_whole(observer: Any, ids: list[str], seconds: float) -> None:
    present = await observer.fetchval(
        "SELECT count(*) FROM headgate_job WHERE ulid = ANY ($1)", ids
    )
    assert present == len(ids), "a committed job is lost"
    assert await observer.fetch(_TWICE) == []
    assert await observer.fetch(_MISSING) == []
    assert await observer.fetch(_HELD) == []
    spent = await observer.fetchval("SELECT count(*) FROM chaos_attempt WHERE rate_class = 'api'")
    assert 0 < spent <= BURST + LIMIT_PER_SECOND * seconds
    await assert_lanes(observer)


async def _assert_exact(observer: Any) -> None:
    """The folded counts are those of the rows."""
    rows = await observer.fetch(
        "SELECT queue, state::text, count(*) AS n FROM headgate_job GROUP BY 1, 2 ORDER BY 1, 2"
    )
    counts = await observer.fetch(
        "SELECT queue, state::text, n FROM headgate_queue_count WHERE n <> 0 ORDER BY 1, 2"
    )
    assert [tuple(row) for row in counts] == [tuple(row) for row in rows]
