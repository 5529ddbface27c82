"""`python -m bench.latency [--quick] [--json]`: from the enqueue to the handler, at 100 jobs/s.

One process enqueues at a steady rate, another works them off, both in fresh processes on a fresh
database of one server; the sides take turns. The clock starts where the producer calls its queue
and stops in the first line of the handler. A ratio above one means that Headgate is ahead.
"""

import random
import statistics
import time
from collections import defaultdict

from bench.peers.child import Fill, Pace, Part, Work
from bench.peers.part import parts
from bench.peers.side import PEERS, SIDES
from bench.peers.tally import Tally, tally_file
from bench.report import arguments, compare, print_figures
from bench.server import BenchServer, bench_server

PER_SECOND = 100
CONCURRENCY = 10
# Until then connections are made, statements prepared, and duties begun.
WARM_UP = 100
_SETTLE_SECONDS = 3.0
_PATIENCE_SECONDS = 30


def waits_ms(server: BenchServer, side: str, jobs: int) -> list[float]:
    """How long each job waited."""
    dsn = server.new_database()
    total = WARM_UP + jobs
    try:
        with parts(side, dsn, [Fill(0)]) as (installer,):
            installer.begin()
            installer.finish()
        with tally_file() as file:
            tally = Tally(file, total)
            wanted: list[Part] = [Work(str(file), total, CONCURRENCY), Pace(total, PER_SECOND)]
            with parts(side, dsn, wanted) as (worker, producer):
                worker.begin()
                time.sleep(_SETTLE_SECONDS)
                producer.begin()
                producer.finish()
                deadline = time.monotonic() + _PATIENCE_SECONDS
                while tally.handled < total:
                    time.sleep(0.01)
                    assert time.monotonic() < deadline, f"{side} does not finish"
                return tally.waits_ms[WARM_UP:]
    finally:
        server.drop_database(dsn)


def main() -> None:
    options = arguments(__doc__.splitlines()[0])
    # Of a round a p99 knows little else than its few slowest jobs.
    rounds, seconds = (2, 4) if options.quick else (5, 8)
    medians: dict[str, list[float]] = defaultdict(list)
    slowest: dict[str, list[float]] = defaultdict(list)
    with bench_server() as server:
        for _ in range(rounds):
            for side in random.sample(SIDES, len(SIDES)):
                percentiles = statistics.quantiles(
                    waits_ms(server, side, seconds * PER_SECOND), n=100
                )
                medians[side].append(percentiles[49])
                slowest[side].append(percentiles[98])
    figures = [
        compare(f"{name} ms, {peer}", values["headgate"], values[peer], less_is_better=True)
        for peer in PEERS
        for name, values in (("p50", medians), ("p99", slowest))
    ]
    print_figures(figures, as_json=options.json)


if __name__ == "__main__":
    main()
