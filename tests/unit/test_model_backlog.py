"""The numbers that operators steer by."""

import pytest

from headgate.model.backlog import (
    age_ms,
    empty_poll_ratio,
    noisy_partition_keys,
    time_to_drain_ms,
    utilization,
)


@pytest.mark.parametrize(
    ("counts", "noisy"),
    [
        ([], []),
        ([500], []),
        ([1, 0], []),
        ([2, 0], [0]),
        ([4, 2], []),
        ([5, 2], [0]),
        ([9, 1, 2], [0]),
        ([3, 3, 3], []),
        ([-7, 2], [1]),
        ([-7, 2, 3], [2]),
        ([0, 0, 0], []),
        ([2, 0, 9, 0, 0, 0, 0, 0, 0], [2]),
        ([9, 0, 9, 0, 0, 0, 0, 0, 0], [0, 2]),
        ([10**18, 2 * 10**18], []),
    ],
)
def test_noisy_partitions(counts: list[int], noisy: list[int]) -> None:
    loads = [(f"p{index}", count) for index, count in enumerate(counts)]
    assert noisy_partition_keys(loads) == [f"p{index}" for index in noisy]


@pytest.mark.parametrize(
    ("backlog", "arrival", "drain", "expected"),
    [
        (10, 2.0, 3.0, 10_000),
        (15, 2.0, 3.0, 15_000),
        (1, 0.0, 3.0, 333),
        (0, 0.0, 1.0, 0),
        (10, 3.0, 3.0, None),
        (10, 3.0, 2.0, None),
        (0, 0.0, 0.0, None),
        (10, 0.0, 5e-324, None),
        (10, 0.0, 1e-12, None),
    ],
)
def test_time_to_drain(backlog: int, arrival: float, drain: float, expected: int | None) -> None:
    assert time_to_drain_ms(backlog, arrival, drain) == expected


def test_ratios() -> None:
    assert utilization(0, 0) == 0.0
    assert utilization(4, 16) == 0.25
    assert utilization(1 + 6, 2 + 10) == pytest.approx(7 / 12)
    assert empty_poll_ratio(0, 0) == 0.0
    assert empty_poll_ratio(32, 128) == 0.25


def test_age() -> None:
    assert age_ms(1_000, 400) == 600
    assert age_ms(1_000, 1_001) == 0
