"""Plans of the gate: every table is read through an index, whatever the statistics say."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import msgspec
import pytest
from sqlalchemy import Executable

from headgate.queries.gate.direct import direct
from headgate.queries.gate.fast import fast
from headgate.queries.gate.full import full
from headgate.queries.gate.prelude import add_partitions, lock_buckets, lock_partitions
from headgate.queries.gate.prune import delete_lanes, lock_lanes
from headgate.queries.gate.refill import refill
from headgate.queries.gate.refusal import refuse
from headgate.queries.gate.reservation import reserve
from headgate.queries.gate.survey import occupied, survey
from headgate.queries.gate.turns import turns
from headgate.queries.gate.walk import ANY_PRIORITY
from headgate.queries.lane_repair import find_drained, register_forgotten
from headgate.queries.lanes import LANE
from headgate.store.compilation import Compiled
from headgate.store.database import GATE_SETTINGS
from headgate.store.store import Store
from tests.store.backlog import admit, bucket, ceiling, fill
from tests.store.rows import Observer

STATEMENTS: dict[str, Executable] = {
    "survey": survey(),
    "occupied": occupied(),
    "direct": direct(),
    "turns": turns(),
    "fast": fast(),
    "full_policies": full(with_ceilings=True, with_buckets=True),
    "full_brief": full(with_ceilings=True, with_buckets=True, brief=True),
    "full_displacing": full(with_ceilings=True, with_buckets=True, with_displacement=True),
    "refuse": refuse(),
    "refill": refill(),
    "reserve": reserve(),
    "full_ceilings": full(with_ceilings=True, with_buckets=False),
    "full_buckets": full(with_ceilings=False, with_buckets=True),
    "full_free": full(with_ceilings=False, with_buckets=False),
    "lock_buckets": lock_buckets(),
    "add_partitions": add_partitions(),
    "lock_partitions": lock_partitions(),
    "lock_lanes": lock_lanes(),
    "delete_lanes": delete_lanes(),
    "register_forgotten": register_forgotten(),
    "find_drained": find_drained(),
}

LANE_VALUES = dict(zip(LANE, ("default", "", 0, "t1", "api"), strict=True))
PARAMETERS: dict[str, Any] = {
    "queues": ["default", "other"],
    "worker": "worker",
    "new_lease_id": "lease",
    "lease_ms": 1_000,
    "capacity": 10,
    "finish_tags": [0.0, 1.5],
    "frontier": 1.5,
    "below_priorities": [ANY_PRIORITY] * 2,
    "cursor_queues": ["default"],
    "cursor_priorities": [0],
    "cursor_partition_keys": ["t1"],
    "cursor_rate_classes": ["api"],
    "queue": "default",
    "level_priority": 0,
    "cursor_partition_key": "t1",
    "cursor_rate_class": "api",
    "busy_classes": ["api"],
    "busy_queues": ["default"],
    "busy_partition_keys": ["t1"],
    **{f"lane_{name}": value for name, value in LANE_VALUES.items()},
    **{f"after_{name}": value for name, value in LANE_VALUES.items()},
    "after_hash": 0,
    "batch_size": 100,
    **{f"drained_{name}_array": [value] for name, value in LANE_VALUES.items()},
}

# Jobs are drawn from lanes, counted while they run, and else taken where they were seen or, where a
# class saves up for one, by their id.
JOB_SCANS = {"headgate_job_lane", "headgate_job_running", "headgate_job_ulid_key", "Tid Scan"}

_FILL = """
INSERT INTO headgate_job
  (id, ulid, kind, payload, partition_key, rate_class, fingerprint, enqueued_at_ms, scheduled_at_ms)
SELECT n, n::text, 'mail', '', 't' || n % $2, CASE WHEN n % 2 = 0 THEN 'api' ELSE '' END,
  n::text, n, n FROM generate_series(1, $1::int) AS n
"""
_REGISTER = """
INSERT INTO headgate_active_partition (queue, sticky_worker, priority, partition_key, rate_class)
SELECT DISTINCT queue, sticky_worker, priority, partition_key, rate_class FROM headgate_job
"""
_PARTITIONS = """
INSERT INTO headgate_inflight (queue, partition_key)
SELECT DISTINCT queue, partition_key FROM headgate_job
"""
_BUCKETS = """
INSERT INTO headgate_rate_bucket (name, tokens, burst, limit_per_window, window_ms, refilled_at_ms)
SELECT 'class' || n, 1, 1, 1, 1, 0 FROM generate_series(1, 2000) AS n
"""

# So few that the planner is indifferent.
_QUARANTINE = """
INSERT INTO headgate_quarantine (fingerprint, kind, crash_count, quarantined_at_ms)
SELECT 'f' || n, 'mail', 3, n FROM generate_series(1, 100) AS n
"""


class Planner:
    """A session of the gate in which every statement is prepared once and for all."""

    def __init__(self, connection: "asyncpg.Connection[Any]") -> None:
        self._connection = connection

    async def prepare(self) -> None:
        for name, statement in STATEMENTS.items():
            await self._connection.execute(
                f"PREPARE gate_{name} AS {Compiled(statement, 'public').sql}"
            )

    async def scans(self, name: str) -> list[dict[str, Any]]:
        """Every node of the generic plan that reads one of our tables."""
        nodes = _nodes(await self._explain(name, PARAMETERS, "FORMAT JSON"))
        return [node for node in nodes if "Scan" in node["Node Type"] and "Relation Name" in node]

    async def cost(self, name: str, **parameters: Any) -> tuple[int, int]:
        """How many jobs the statement starts, and how many pages it touches; it is undone."""
        costs = []
        for _ in range(3):
            transaction = self._connection.transaction()
            await transaction.start()
            top = await self._explain(
                name, {**PARAMETERS, **parameters}, "ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON"
            )
            await transaction.rollback()
            pages = top["Shared Hit Blocks"] + top["Shared Read Blocks"]
            costs.append((int(top["Actual Rows"]), pages))
        return min(costs)

    async def _explain(self, name: str, parameters: dict[str, Any], options: str) -> dict[str, Any]:
        compiled = Compiled(STATEMENTS[name], "public")
        values = ", ".join(_literal(value) for value in compiled.arguments(parameters))
        # The backend keeps the generic plan, so this is the one that runs.
        plan = await self._connection.fetchval(
            f"EXPLAIN ({options}) EXECUTE gate_{name} ({values})"
        )
        top: dict[str, Any] = msgspec.json.decode(plan)[0]["Plan"]
        return top


def _literal(value: Any) -> str:
    if value == []:
        return "'{}'"
    if isinstance(value, list):
        return "ARRAY[" + ", ".join(map(_literal, value)) + "]"
    return f"'{value}'" if isinstance(value, str) else str(value)


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


@pytest.fixture
async def planner(headgate_database: str) -> AsyncIterator[Planner]:
    """Prepared before there is anything in the database."""
    connection = await asyncpg.connect(headgate_database, server_settings=GATE_SETTINGS)
    planner = Planner(connection)
    await planner.prepare()
    yield planner
    await connection.close()


async def assert_bounded(planner: Planner) -> None:
    for name in STATEMENTS:
        for scan in await planner.scans(name):
            place = f"{name}: {scan['Node Type']} on {scan['Relation Name']} {scan['Alias']}"
            assert scan["Node Type"] in {"Index Scan", "Index Only Scan", "Tid Scan"}, place
            assert "Index Cond" in scan or "TID Cond" in scan, place
            if scan["Relation Name"] == "headgate_quarantine":
                assert scan["Index Name"] == "headgate_quarantine_pkey", place
            if scan["Relation Name"] == "headgate_job":
                by = scan.get("Index Name", scan["Node Type"])
                assert by in JOB_SCANS, f"{place} by {by}"


@pytest.mark.parametrize("partitions", [1, 500])
async def test_no_plan_depends_on_statistics(
    planner: Planner, observer: Observer, partitions: int
) -> None:
    await assert_bounded(planner)
    await observer.execute("ANALYZE")
    await assert_bounded(planner)
    await observer.execute(_FILL, 20_000, partitions)
    for statement in (_REGISTER, _PARTITIONS, _BUCKETS, _QUARANTINE):
        await observer.execute(statement)
    await assert_bounded(planner)
    await observer.execute("ANALYZE")
    await assert_bounded(planner)
    # Statistics of a small backlog, which then grows.
    await observer.execute("TRUNCATE headgate_job CASCADE")
    await observer.execute(_FILL, 50, partitions)
    await observer.execute("ANALYZE")
    await assert_bounded(planner)


async def test_even_a_long_statement_is_planned_once(store: Store, observer: Observer) -> None:
    await bucket(observer, "api", 100)
    await ceiling(observer, "default", 100)
    await fill(store, 9, rate_class="api")
    for _ in range(5):
        assert len(await admit(store, 1)) == 1
    async with store.gate._database.transaction() as session:
        uses = await session._connection.fetchval(
            "SELECT max(generic_plans) FROM pg_prepared_statements WHERE length(statement) > $1",
            15 * 1024,
        )
    assert uses >= 3
