"""What one call costs at small and at large scale: pages touched, and time.

The statements run as the gate prepares them and are undone; small and large take turns.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import asyncpg
from sqlalchemy import Executable

from bench.gate.workloads import Workload
from bench.report import Figure, compare
from headgate.queries.gate.fast import fast
from headgate.queries.gate.full import full
from headgate.queries.gate.turns import turns
from headgate.queries.gate.walk import ANY_PRIORITY
from headgate.store.admissions import Call
from headgate.store.compilation import Compiled
from headgate.store.database import GATE_SETTINGS
from headgate.store.rotation import Rotation
from tests.store.plans import pages_read, plan_of

CAPACITIES = (1, 10, 100)
WARM_UP = 3

FAST: Mapping[str, Executable] = {"turns": turns(), "fast": fast()}
FULL: Mapping[str, Executable] = {"full": full(with_ceilings=True, with_buckets=True)}


class Growth(NamedTuple):
    """Two backlogs that differ in one size, and the statements to run on both."""

    name: str
    small: tuple[Workload, int]
    large: tuple[Workload, int]
    statements: Mapping[str, Executable]


def growths(*, quick: bool) -> list[Growth]:
    rows = 100_000 if quick else 1_000_000
    free = Workload(name="free", tenants=100)
    policies = Workload(name="policies", tenants=100, policies=True)
    tenants = [(Workload(name="free", tenants=count), 20_000) for count in (10, 10_000)]
    classes = [
        (Workload(name="policies", tenants=100, policies=True, unused=count), 10_000)
        for count in (10, 10_000)
    ]
    return [
        Growth(f"10,000 to {rows:,} jobs", (free, 10_000), (free, rows), FAST),
        Growth(f"10,000 to {rows:,} jobs", (policies, 10_000), (policies, rows), FULL),
        Growth("10 to 10,000 tenants", tenants[0], tenants[1], {**FAST, **FULL}),
        Growth("10 to 10,000 classes", classes[0], classes[1], FULL),
    ]


async def compare_costs(growth: Growth, dsns: Sequence[str], samples: int) -> list[Figure]:
    """Figures of the large backlog (ours) against the small one (other): a ratio of one is flat."""
    figures = []
    connections = [await asyncpg.connect(dsn, server_settings=GATE_SETTINGS) for dsn in dsns]
    try:
        for name, statement in growth.statements.items():
            for capacity in CAPACITIES:
                pages: list[list[float]] = [[], []]
                times: list[list[float]] = [[], []]
                for sample in range(WARM_UP + samples):
                    for place, connection in enumerate(connections):
                        spent = await _spent(connection, statement, _parameters(capacity))
                        if sample >= WARM_UP:
                            times[place].append(spent * 1000)
                for place, connection in enumerate(connections):
                    for _ in range(3):
                        nodes = await plan_of(
                            connection, statement, _parameters(capacity), "force_generic_plan"
                        )
                        pages[place].append(pages_read(nodes))
                label = f"{growth.name}, {name}, capacity {capacity}"
                figures.append(compare(f"{label}, pages", pages[1], pages[0]))
                figures.append(compare(f"{label}, ms", times[1], times[0]))
    finally:
        for connection in connections:
            await connection.close()
    return figures


async def _spent(connection: Any, statement: Executable, parameters: Mapping[str, Any]) -> float:
    """Seconds of one call, which is undone."""
    compiled = Compiled(statement, "public")
    prepared = await connection.prepare(compiled.sql)
    transaction = connection.transaction()
    await transaction.start()
    try:
        started = time.perf_counter()
        await prepared.fetch(*compiled.arguments(parameters))
        return time.perf_counter() - started
    finally:
        await transaction.rollback()


def _parameters(capacity: int) -> dict[str, Any]:
    call = Call("worker", ["default"], capacity, 60_000)
    rotation = Rotation().parameters(call.queues)
    turn = Rotation().turn("default", 0)
    return call.parameters(**rotation, **turn, below_priorities=[ANY_PRIORITY])
