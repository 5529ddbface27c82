"""Figures of a bench: two sides measured in one run, as a table or as JSON."""

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence

import msgspec


class Figure(msgspec.Struct, frozen=True):
    """One comparison. `ratio` is ours against the other, above one where ours is better."""

    name: str
    ours: float
    other: float
    ratio: float


def compare(
    name: str, ours: Sequence[float], other: Sequence[float], *, less_is_better: bool = False
) -> Figure:
    """Medians of both sides, and the median of the ratios of the rounds."""
    pairs = zip(ours, other, strict=True)
    ratios = [b / a if less_is_better else a / b for a, b in pairs]
    return Figure(
        name,
        round(statistics.median(ours), 2),
        round(statistics.median(other), 2),
        round(statistics.median(ratios), 3),
    )


def arguments(
    description: str, *, measures: Sequence[str] = (), numbers: Mapping[str, str] | None = None
) -> argparse.Namespace:
    """What was typed; `measure` are those of `measures` that are wanted, all by default. Options of
    `numbers`, named with what they say, are None unless they are given.
    """
    parser = argparse.ArgumentParser(description=description)
    if measures:
        parser.add_argument("measure", nargs="*", help=f"some of {', '.join(measures)}")
    for name, text in (numbers or {}).items():
        parser.add_argument(f"--{name}", type=float, help=text)
    parser.add_argument("--quick", action="store_true", help="fewer jobs and rounds")
    parser.add_argument("--json", action="store_true", help="print a list of figures")
    options = parser.parse_args()
    if measures:
        options.measure = options.measure or list(measures)
        if unknown := set(options.measure) - set(measures):
            parser.error(f"there is no {', '.join(sorted(unknown))}")
    return options


def print_figures(figures: Sequence[Figure], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(msgspec.json.encode(list(figures)).decode() + "\n")
        return
    width = max(len(figure.name) for figure in figures)
    print(f"{'':{width}}  {'ours':>12}  {'other':>12}  {'ratio':>7}")
    for figure in figures:
        print(
            f"{figure.name:{width}}  {figure.ours:>12,.2f}  {figure.other:>12,.2f}"
            f"  {figure.ratio:>7.2f}"
        )
