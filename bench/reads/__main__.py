"""`python -m bench.reads [--quick] [--json]`: reads among many jobs beside reads among few.

5,000,000 jobs beside 50,000 (with `--quick` 500,000 beside 5,000) on one server, each request to
both in turns. `p50` are milliseconds of a whole answer, `pages` are of the dearest statement of the
request, and of all of them. Where an answer takes more than half as long again on the large side,
either a cap that the small side does not reach explains it, which is named, or the line is marked;
so are pages beyond the bound.
Anything marked makes the exit status 1. One is not marked for the noise of a busy machine: the
quickest answers of both sides have to differ as much, and that whenever it is looked at.
"""

import asyncio
import statistics
import sys
import time

import msgspec

from bench.reads.fill import fill
from bench.reads.requests import SEARCHED, bound_of, lists
from bench.report import arguments
from bench.server import BenchServer, bench_server
from headgate.store import migration
from tests.contract.reading import Reading, reading_on
from tests.contract.routes import Request, routes

_MOST_RATIO = 1.5
_NOISE_MS = 0.5
_LOOKS = 3


class Comparison(msgspec.Struct, frozen=True):
    """One request on both sides."""

    target: str
    status: int
    small_ms: float
    large_ms: float
    ratio: float
    small_pages: int
    large_pages: int
    all_pages: int
    bound: int
    cap: str
    marks: list[str]


async def read(request: Request, small: Reading, large: Reading, rounds: int) -> Comparison:
    answer = await large.ask(request.target)
    few, many = await small.cost(request.target), await large.cost(request.target)
    bound = bound_of(many) if request.bound is SEARCHED else request.bound
    explained = bool(bound.cap) and many.total > few.total
    for _ in range(_LOOKS):
        times: dict[Reading, list[float]] = {small: [], large: []}
        for _ in range(rounds):
            for side, taken in times.items():
                taken.append(await side.ms(request.target))
        small_ms, large_ms = (statistics.median(taken) for taken in times.values())
        ratio = large_ms / small_ms
        slower = ratio > _MOST_RATIO and _differ(*map(min, times.values())) and not explained
        if not slower:
            break
    marks = ["slower"] if slower else []
    if many.most > bound.pages:
        marks.append("beyond its bound")
    if answer.status != 200 and not (answer.status == 404 and "nobody" in request.target):
        marks.append("not answered")
    return Comparison(
        request.target,
        answer.status,
        round(small_ms, 2),
        round(large_ms, 2),
        round(ratio, 2),
        few.most,
        many.most,
        many.total,
        bound.pages,
        bound.cap,
        marks,
    )


def _differ(small_ms: float, large_ms: float) -> bool:
    return large_ms > _MOST_RATIO * small_ms and large_ms - small_ms > _NOISE_MS


async def measure(small_dsn: str, large_dsn: str, *, quick: bool) -> list[Comparison]:
    requests = [*routes(), *lists(values=2 if quick else 3)]
    rounds = 5 if quick else 7
    async with reading_on(small_dsn) as small, reading_on(large_dsn) as large:
        return [await read(request, small, large, rounds) for request in requests]


def installation(server: BenchServer, jobs: int) -> str:
    """The DSN of a filled installation."""
    dsn = server.new_database()
    asyncio.run(migration.upgrade(dsn, "public"))
    begun = time.perf_counter()
    asyncio.run(fill(dsn, jobs))
    print(f"{jobs:,} jobs in {time.perf_counter() - begun:.0f} s", file=sys.stderr)
    return dsn


def table(readings: list[Comparison]) -> str:
    lines = [
        f"{'':60}  {'p50 small':>9}  {'large':>7}  {'ratio':>5}  {'pages small':>11}  {'large':>7}"
        f"  {'all':>7}"
    ]
    for each in readings:
        notes = ", ".join([*(mark.upper() for mark in each.marks), each.cap]).strip(", ")
        lines.append(
            f"{each.target.removeprefix('/api/v1'):60}  {each.small_ms:9.2f}  {each.large_ms:7.2f}"
            f"  {each.ratio:5.2f}  {each.small_pages:11,}  {each.large_pages:7,}"
            f"  {each.all_pages:7,}  {notes}".rstrip()
        )
    marked = sum(bool(each.marks) for each in readings)
    capped = sum(each.ratio > _MOST_RATIO and bool(each.cap) for each in readings)
    lines.append(
        f"{len(readings)} requests, {marked} marked, {capped} slower as far as their caps reach"
    )
    return "\n".join(lines)


def main() -> None:
    options = arguments(__doc__.splitlines()[0])
    sizes = (5_000, 500_000) if options.quick else (50_000, 5_000_000)
    with bench_server() as server:
        small, large = (installation(server, size) for size in sizes)
        readings = asyncio.run(measure(small, large, quick=options.quick))
    print(msgspec.json.encode(readings).decode() if options.json else table(readings))
    sys.exit(any(each.marks for each in readings))


if __name__ == "__main__":
    main()
