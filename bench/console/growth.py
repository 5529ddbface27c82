"""A tab that stays open while jobs come and go."""

import asyncio
import sys
import time
from typing import Any, Final

import msgspec

from bench.console.traffic import traffic
from bench.report import Figure
from tests.console.browser import launched
from tests.console.screen import Screen

PLACES: Final[dict[str, tuple[str, ...]]] = {"overview": (), "jobs": ("jobs",)}

_MINUTE_S: Final = 60
_FEWEST: Final = 6
# What is allowed beside the beginning: caches fill up, and a list has not always as many rows.
_MOST_RATIO: Final = 1.15
_MOST_MORE: Final = {"heap, MB": 1.0, "nodes": 300.0, "listeners": 20.0}


class Reading(msgspec.Struct, frozen=True):
    """What a page holds once its garbage is collected."""

    heap_mb: float
    nodes: int
    listeners: int
    looks: int


async def read(screen: Screen, devtools: Any) -> Reading:
    # What one collection finalizes, the next one takes away.
    for _ in range(2):
        await devtools.send("HeapProfiler.collectGarbage")
    heap = await devtools.send("Runtime.getHeapUsage")
    counters = await devtools.send("Memory.getDOMCounters")
    looks = await screen.page.evaluate("document.querySelector('main').dataset.looks")
    return Reading(
        heap_mb=round(heap["usedSize"] / 1e6, 2),
        nodes=counters["nodes"],
        listeners=counters["jsEventListeners"],
        looks=int(looks),
    )


async def watch(screen: Screen, name: str, *, minutes: float) -> list[Reading]:
    """A reading a minute, and six at least."""
    await screen.go(*PLACES[name])
    await screen.page.get_by_role("button", name="live").wait_for()
    devtools = await screen.page.context.new_cdp_session(screen.page)
    times = max(_FEWEST, round(minutes))
    readings: list[Reading] = []
    begun = time.monotonic()
    for number in range(1, times + 1):
        due = begun + number * minutes * _MINUTE_S / times
        await asyncio.sleep(due - time.monotonic())
        readings.append(await read(screen, devtools))
        print(f"{name}, {number} of {times}: {readings[-1]}", file=sys.stderr, flush=True)
    await devtools.detach()
    return readings


async def measure(browser: str, site: str, dsn: str, *, minutes: float) -> list[Figure]:
    figures: list[Figure] = []
    async with (
        traffic(dsn) as busy,
        launched(browser) as running,
        Screen.opened(running, site) as screen,
    ):
        for name in PLACES:
            readings = await watch(screen, name, minutes=minutes / len(PLACES))
            figures += figures_of(name, readings)
        screen.assert_clean()
        print(f"{busy.enqueued:,} jobs in, {busy.run:,} run, {busy.cpu():.0%} of a core for them",
              file=sys.stderr)  # fmt: skip
    return figures


def figures_of(name: str, readings: list[Reading]) -> list[Figure]:
    """What is left at least in the last third of the time beside the first, and the most ever.

    A reading between two looks is low, and one amid a look is not: only what is never let go of
    stays in all.
    """
    third = len(readings) // 3
    found = []
    for kind, values in {
        "heap, MB": [reading.heap_mb for reading in readings],
        "nodes": [float(reading.nodes) for reading in readings],
        "listeners": [float(reading.listeners) for reading in readings],
    }.items():
        first, last, most = min(values[:third]), min(values[-third:]), max(values)
        label = f"{name}, {readings[-1].looks:,} looks, {kind}"
        for what, value in (("last", last), ("most", most)):
            found.append(Figure(f"{label}, {what}", value, first, round(first / value, 3)))
    return found


def is_kept(figure: Figure) -> bool:
    """Whether the end is within what is allowed beside the beginning."""
    _, kind = figure.name.removesuffix(", last").split(" looks, ", 1)
    more = _MOST_MORE.get(kind)
    return more is None or figure.ours <= figure.other * _MOST_RATIO + more
