"""`python -m bench.writes [--quick] [--json]`: enqueue and acknowledgement beside less.

`enqueue` compares jobs per second of `Store.producer.enqueue` with those of a bare insert of the
same columns from arrays: into a table of the same shape with a primary key and no other index, and
into one that has our indexes as well. `ack` compares acknowledged jobs per second with those of a
twin database whose counters are switched off. The other lines are the 99th percentile in
milliseconds of an operation while a producer's transaction is open on the same queue, partition and
keys (`ours`) and while none is (`other`). Sides take turns; above one means that ours is better.
"""

import asyncio

from bench.report import Figure, arguments, print_figures
from bench.server import BenchServer, bench_server
from bench.writes.acknowledge import compare_acknowledgements
from bench.writes.enqueue import compare_enqueues
from bench.writes.open_transaction import compare_latencies
from headgate.store.migration import upgrade


def new_installation(server: BenchServer) -> str:
    dsn = server.new_database()
    asyncio.run(upgrade(dsn))
    return dsn


def main() -> None:
    options = arguments(__doc__.splitlines()[0])
    figures: list[Figure] = []
    with bench_server() as server:
        dsn, twin = new_installation(server), new_installation(server)
        figures += asyncio.run(compare_enqueues(dsn, quick=options.quick))
        server.drop_database(dsn)
        dsn = new_installation(server)
        figures += asyncio.run(compare_acknowledgements(dsn, twin, quick=options.quick))
        figures += asyncio.run(compare_latencies(new_installation(server), quick=options.quick))
    print_figures(figures, as_json=options.json)


if __name__ == "__main__":
    main()
