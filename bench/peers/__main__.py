"""`python -m bench.peers [--quick] [--json]`: enqueue and no-op jobs beside other queues.

Every measurement runs in fresh processes on a fresh database of one server; the sides take turns.
`jobs/s` compares rates, `cpu` the processor time per job of clients and server together in
microseconds. A drain is timed once a tenth of its jobs is handled, when every worker is well under
way, until the call of the last handler.
A ratio above one means that Headgate is ahead.
"""

import random
import time
from collections import defaultdict
from contextlib import ExitStack

from bench.peers.child import Fill, Part, Produce, Work
from bench.peers.part import RunningPart, parts
from bench.peers.side import PEERS, SIDES
from bench.peers.tally import Tally, tally_file
from bench.report import Figure, arguments, compare, print_figures
from bench.server import BenchServer, bench_server, cpu_seconds_of

# Jobs per measurement, quick and full.
ENQUEUES = {
    "enqueue": (500, 3_000),
    "enqueue_concurrent": (1_000, 8_000),
    "enqueue_batch": (16_000, 40_000),
}
# The same, with the concurrency of a worker and the number of workers, each in a process.
DRAINS = {
    "drain_10": ((4_000, 20_000), 10, 1),
    "drain_100": ((8_000, 30_000), 100, 1),
    "drain_100_in_4": ((8_000, 40_000), 100, 4),
}
MEASURES = (*ENQUEUES, *DRAINS)
# A slow side gets fewer jobs of many, its rate does not depend on them.
SLOW = ("chancy", "procrastinate")
_PATIENCE_SECONDS = 300


def enqueues(server: BenchServer, dsn: str, side: str, way: str, jobs: int) -> tuple[float, float]:
    """Jobs per second, and microseconds of processor time per job."""
    with parts(side, dsn, [Produce(way, jobs)]) as (producer,):
        cpu = server.cpu_seconds()
        producer.begin()
        measured = producer.finish()
        cpu = measured.cpu_seconds + server.cpu_seconds() - cpu
        return jobs / measured.seconds, cpu / jobs * 1e6


def drains(
    server: BenchServer, dsn: str, side: str, jobs: int, concurrency: int, workers: int
) -> tuple[float, float]:
    """The same, from when a tenth of the jobs is handled to when the last is."""
    with parts(side, dsn, [Fill(jobs)]) as (filler,):
        filler.begin()
        filler.finish()
    with ExitStack() as stack:
        files = [stack.enter_context(tally_file()) for _ in range(workers)]
        tallies = [Tally(file, jobs) for file in files]
        work: list[Part] = [Work(str(file), jobs, concurrency) for file in files]
        running = stack.enter_context(parts(side, dsn, work))
        for worker in running:
            worker.begin()
        before = _handled(tallies, jobs // 10, side)
        begun, cpu = time.perf_counter(), _cpu(server, running)
        counted = _handled(tallies, jobs, side) - before
        seconds, cpu = time.perf_counter() - begun, _cpu(server, running) - cpu
        return counted / seconds, cpu / counted * 1e6


def measure(server: BenchServer, side: str, measure: str, *, quick: bool) -> tuple[float, float]:
    dsn = server.new_database()
    try:
        if measure in ENQUEUES:
            jobs = _jobs_of(side, ENQUEUES[measure], quick=quick)
            return enqueues(server, dsn, side, measure, jobs)
        sizes, concurrency, workers = DRAINS[measure]
        jobs = _jobs_of(side, sizes, quick=quick)
        return drains(server, dsn, side, jobs, concurrency, workers)
    finally:
        server.drop_database(dsn)


def _jobs_of(side: str, sizes: tuple[int, int], *, quick: bool) -> int:
    jobs = sizes[0 if quick else 1]
    return min(jobs, max(1_000, jobs // 8 // 1_000 * 1_000)) if side in SLOW else jobs


def _handled(tallies: list[Tally], wanted: int, side: str) -> int:
    """Waits until so many jobs are handled; how many are then."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while (handled := sum(tally.handled for tally in tallies)) < wanted:
        time.sleep(0.002)
        assert time.monotonic() < deadline, f"{side} does not finish"
    return handled


def _cpu(server: BenchServer, workers: list[RunningPart]) -> float:
    return server.cpu_seconds() + sum(cpu_seconds_of(worker.pid) for worker in workers)


def main() -> None:
    options = arguments(__doc__.splitlines()[0], measures=MEASURES)
    rates: dict[tuple[str, str], list[float]] = defaultdict(list)
    costs: dict[tuple[str, str], list[float]] = defaultdict(list)
    with bench_server() as server:
        for _ in range(3 if options.quick else 5):
            for wanted in options.measure:
                for side in random.sample(SIDES, len(SIDES)):
                    rate, cost = measure(server, side, wanted, quick=options.quick)
                    rates[side, wanted].append(rate)
                    costs[side, wanted].append(cost)
    figures: list[Figure] = []
    for wanted in options.measure:
        for peer in PEERS:
            ours, other = ("headgate", wanted), (peer, wanted)
            figures += [
                compare(f"{wanted} jobs/s, {peer}", rates[ours], rates[other]),
                compare(
                    f"{wanted} cpu us/job, {peer}",
                    costs[ours],
                    costs[other],
                    less_is_better=True,
                ),
            ]
    print_figures(figures, as_json=options.json)


if __name__ == "__main__":
    main()
