"""Figures that are held against a bound: above one, the bound is kept."""

import math
from collections.abc import Sequence

from bench.report import Figure


def at_most(name: str, value: float, bound: float) -> Figure:
    return Figure(name, round(value, 2), bound, round(bound / value, 3) if value else math.inf)


def at_least(name: str, value: float, bound: float) -> Figure:
    return Figure(name, round(value, 2), bound, round(value / bound, 3))


def exactly(name: str, value: float, wanted: float) -> Figure:
    """One where it is so, and zero where it is not."""
    return Figure(name, value, wanted, float(value == wanted))


def p99(values: Sequence[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)]
