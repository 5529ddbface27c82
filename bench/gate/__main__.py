"""`python -m bench.gate [--quick] [--json]`: the gate beside a plain SKIP LOCKED dequeue.

The first lines compare claims per second of `Store.gate.admit` with those of a plain dequeue that
knows no policy and returns the same columns, through the same connections and as the same claims:
two copies of one backlog on one server, call by call in turns, and what was taken is completed in
between. A ratio of one means that admission is free.

The other lines compare the cost of one statement on a large backlog (`ours`) with that on a small
one (`other`): a ratio of one means that size does not matter.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bench.gate.flat import compare_costs, growths
from bench.gate.sides import claims_per_second, opened
from bench.gate.workloads import Workload, make
from bench.report import Figure, arguments, compare, print_figures
from bench.server import BenchServer, bench_server

WORKLOADS = (
    Workload(name="one lane"),
    Workload(name="100 tenants", tenants=100),
    Workload(name="10,000 tenants", tenants=10_000),
    Workload(name="all policies", tenants=100, policies=True, unused=1_000),
    Workload(name="blocked heads", tenants=100, blocked=20_000),
)
# One call in 64 takes a fresh look around, so each round has as many.
CALLS = 64


@contextmanager
def backlogs(server: BenchServer, wanted: Sequence[tuple[Workload, int]]) -> Iterator[list[str]]:
    """The DSNs of databases with these backlogs, which are dropped at the end."""
    dsns = [server.new_database() for _ in wanted]
    try:
        asyncio.run(_make_all(dsns, wanted))
        yield dsns
    finally:
        for dsn in dsns:
            server.drop_database(dsn)


async def _make_all(dsns: Sequence[str], wanted: Sequence[tuple[Workload, int]]) -> None:
    await asyncio.gather(
        *(make(dsn, workload, rows) for dsn, (workload, rows) in zip(dsns, wanted, strict=True))
    )


async def beside_plain(workload: Workload, dsns: Sequence[str], *, quick: bool) -> list[Figure]:
    figures = []
    async with opened(*dsns) as sides:
        for capacity in (1, 10, 100):
            ours, plain = await claims_per_second(
                sides,
                capacity,
                calls=CALLS // 4 if quick and capacity == 100 else CALLS,
                rounds=3 if quick else 7,
            )
            figures.append(compare(f"{workload.name}, capacity {capacity}", ours, plain))
    return figures


def main() -> None:
    options = arguments(__doc__.splitlines()[0])
    figures: list[Figure] = []
    with bench_server() as server:
        for workload in WORKLOADS:
            rows = 20_000 if options.quick else 100_000
            with backlogs(server, [(workload, rows)] * 2) as dsns:
                figures += asyncio.run(beside_plain(workload, dsns, quick=options.quick))
        for growth in growths(quick=options.quick):
            with backlogs(server, [growth.small, growth.large]) as dsns:
                samples = 9 if options.quick else 25
                figures += asyncio.run(compare_costs(growth, dsns, samples))
    print_figures(figures, as_json=options.json)


if __name__ == "__main__":
    main()
