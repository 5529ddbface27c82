"""`python -m bench.peers [--quick] [--json]`: enqueue and no-op jobs beside other queues.

Every measurement runs in a fresh process on a fresh database of one server; the sides take turns.
`jobs/s` compares rates, `cpu` the processor time per job of client and server together in
microseconds. A ratio above one means that Headgate is ahead.
"""

import random
import subprocess
import sys
from collections import defaultdict

import msgspec

from bench.peers.child import Measurement
from bench.report import Figure, arguments, compare, print_figures
from bench.server import BenchServer, bench_server

PEERS = ("pgqueuer", "procrastinate")
# Jobs per measurement, quick and full. A slow side gets fewer, its rate does not depend on it.
WORKS = {
    "enqueue": (500, 3_000),
    "enqueue_concurrent": (1_000, 8_000),
    "enqueue_batch": (5_000, 20_000),
    "drain_10": (4_000, 20_000),
    "drain_100": (8_000, 30_000),
}
SLOW = {("procrastinate", "drain_10"), ("procrastinate", "drain_100")}


def run_once(server: BenchServer, side: str, work: str, jobs: int) -> tuple[float, float]:
    """Jobs per second, and microseconds of processor time per job."""
    if (side, work) in SLOW:
        jobs = max(1_000, jobs // 8 // 1_000 * 1_000)
    dsn = server.new_database()
    child = subprocess.Popen(
        [sys.executable, "-m", "bench.peers.child", side, work, dsn, str(jobs)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "start\n", f"{side} failed at {work}"
        server_cpu = server.cpu_seconds()
        child.stdin.write("\n")
        child.stdin.flush()
        answer = child.stdout.readline()
        server_cpu = server.cpu_seconds() - server_cpu
        child.wait(timeout=30)
    finally:
        child.kill()
        child.wait()
        server.drop_database(dsn)
    measured = msgspec.json.decode(answer, type=Measurement)
    cpu = measured.cpu_seconds + server_cpu
    return measured.jobs / measured.seconds, cpu / measured.jobs * 1e6


def main() -> None:
    options = arguments(__doc__.splitlines()[0])
    rounds = 2 if options.quick else 5
    rates: dict[tuple[str, str], list[float]] = defaultdict(list)
    costs: dict[tuple[str, str], list[float]] = defaultdict(list)
    with bench_server() as server:
        for _ in range(rounds):
            for work, sizes in WORKS.items():
                for side in random.sample(["headgate", *PEERS], len(PEERS) + 1):
                    rate, cost = run_once(server, side, work, sizes[0 if options.quick else 1])
                    rates[side, work].append(rate)
                    costs[side, work].append(cost)
    figures: list[Figure] = []
    for work in WORKS:
        for peer in PEERS:
            figures.append(
                compare(f"{work} jobs/s, {peer}", rates["headgate", work], rates[peer, work])
            )
            figures.append(
                compare(
                    f"{work} cpu us/job, {peer}",
                    costs["headgate", work],
                    costs[peer, work],
                    less_is_better=True,
                )
            )
    print_figures(figures, as_json=options.json)


if __name__ == "__main__":
    main()
