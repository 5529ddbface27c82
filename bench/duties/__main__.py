"""`python -m bench.duties [--quick] [--json] [MEASURE...]`: what happens by itself, and its bounds.

`ours` is what was measured, `other` the bound; above one (or one, where something is to be exactly
so) the bound is kept. Six processes whose schedulers are killed at random for a minute; schedules
that catch up after a year; sweeps over backlogs, with the claims of a worker beside them; sweeps
that have nothing to do among a million jobs; a bulk operation beside workers; a worker's memory.
"""

import asyncio
import logging

from bench.duties import bulk, idle, killed, memory, sweeps, year
from bench.report import Figure, arguments, print_figures
from bench.server import bench_server
from headgate.store.migration import upgrade

MEASURES = {
    "year": year.measure,
    "bulk": bulk.measure,
    "sweeps": sweeps.measure,
    "idle": idle.measure,
    "memory": memory.measure,
    "killed": killed.measure,
}


def main() -> None:
    options = arguments(__doc__.splitlines()[0], measures=list(MEASURES))
    logging.getLogger("headgate").setLevel(logging.ERROR)
    figures: list[Figure] = []
    with bench_server() as server:
        for name in options.measure:
            dsn = server.new_database()
            asyncio.run(upgrade(dsn))
            figures += asyncio.run(MEASURES[name](dsn, quick=options.quick))
            server.drop_database(dsn)
    print_figures(figures, as_json=options.json)


if __name__ == "__main__":
    main()
