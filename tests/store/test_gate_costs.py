"""What a call of the gate touches does not grow with what there is.

The plans are those of an empty database, and nobody has told the planner what came since.
"""

from typing import Any

import pytest

from tests.store.rows import Observer
from tests.store.test_gate_plans import Planner, planner

__all__ = ["planner"]

CAPACITIES = (1, 10, 100)

# One queue, from the start of its rotation.
FROM_THE_START: dict[str, Any] = {
    "queues": ["default"],
    "finish_tags": [0.0],
    "frontier": 0.0,
    "below_priorities": [2**31],
    "cursor_queues": [],
    "cursor_priorities": [],
    "cursor_partition_keys": [],
    "cursor_rate_classes": [],
    "lane_partition_key": "t0",
    "lane_rate_class": "",
}

_JOBS = """
INSERT INTO headgate_job (id, ulid, kind, payload, partition_key, rate_class, fingerprint,
  enqueued_at_ms, scheduled_at_ms)
SELECT n, n::text, 'mail', '', 't' || n % $3,
  CASE WHEN $4 AND n / $3 % 2 = 0 THEN 'api' ELSE '' END, n::text, n, n
FROM generate_series($1::int, $2::int) AS n
"""
_LANES = """
INSERT INTO headgate_active_partition (queue, partition_key, rate_class)
SELECT DISTINCT queue, partition_key, rate_class FROM headgate_job ON CONFLICT DO NOTHING
"""
_PARTITIONS = """
INSERT INTO headgate_inflight (queue, partition_key)
SELECT DISTINCT queue, partition_key FROM headgate_job ON CONFLICT DO NOTHING
"""
_CLASSES = """
INSERT INTO headgate_rate_bucket (name, tokens, burst, limit_per_window, window_ms, refilled_at_ms)
SELECT CASE n WHEN 1 THEN 'api' ELSE 'class' || n END, 1000, 1000, 1, 1000, 0
FROM generate_series($1::int, $2::int) AS n
"""
_CEILING = """
INSERT INTO headgate_concurrency_limit (name, queue, max_concurrent) VALUES ('all', 'default', 1000)
"""


async def grow(
    observer: Observer, start: int, end: int, partitions: int, *, classed: bool = False
) -> None:
    await observer.execute(_JOBS, start + 1, end, partitions, classed)
    await observer.execute(_LANES)
    await observer.execute(_PARTITIONS)


async def pages(planner: Planner, name: str, capacity: int) -> int:
    rows, touched = await planner.cost(name, **FROM_THE_START, capacity=capacity)
    assert rows >= (1 if name == "refill" else capacity)
    return touched


async def costs(planner: Planner, *names: str) -> list[list[int]]:
    """The pages that each statement touches, at each capacity."""
    return [[await pages(planner, name, capacity) for capacity in CAPACITIES] for name in names]


def assert_flat(small: list[list[int]], large: list[list[int]], *bounds: float) -> None:
    for few, many in zip(small, large, strict=True):
        fits = [b <= bound * a for a, b, bound in zip(few, many, bounds, strict=True)]
        assert fits == [True] * len(CAPACITIES), (few, many)


@pytest.mark.parametrize(
    ("names", "partitions"),
    [(["direct"], 1), (["fast", "full_free"], 20), (["full_policies", "refill"], 20)],
    ids=["direct", "free", "policies"],
)
async def test_the_length_of_the_backlog_costs_nothing(
    planner: Planner, observer: Observer, names: list[str], partitions: int
) -> None:
    policies = "full_policies" in names
    if policies:
        await observer.execute(_CLASSES, 1, 10)
        await observer.execute(_CEILING)
    await grow(observer, 0, 2_000, partitions, classed=policies)
    short = await costs(planner, *names)
    await grow(observer, 2_000, 20_000, partitions, classed=policies)
    assert_flat(short, await costs(planner, *names), 1.5, 1.5, 1.5)


async def test_the_number_of_partitions_costs_next_to_nothing(
    planner: Planner, observer: Observer
) -> None:
    await grow(observer, 0, 10_000, 10)
    few = await costs(planner, "fast", "full_free")
    await grow(observer, 10_000, 20_000, 2_000)
    assert_flat(few, await costs(planner, "fast", "full_free"), 1.3, 1.3, 2.0)


async def test_the_number_of_rate_classes_costs_nothing(
    planner: Planner, observer: Observer
) -> None:
    await observer.execute(_CLASSES, 1, 10)
    await observer.execute(_CEILING)
    await grow(observer, 0, 4_000, 20, classed=True)
    few = await costs(planner, "full_policies")
    await observer.execute(_CLASSES, 11, 10_000)
    assert_flat(few, await costs(planner, "full_policies"), 1.3, 1.3, 1.3)
