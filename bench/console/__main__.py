"""`python -m bench.console [growth|views] [--quick] [--minutes N] [--jobs N] [--json]`.

`growth`: a tab stays open while jobs come and go, half of the time on the overview and half on the
list of jobs. Every minute the garbage is collected, and what is left is written to stderr: the heap
in megabytes, nodes of the document, and listeners. Told is the least of each in the last third of
the time beside the least in the first, and the most there ever was; beyond the growth that is
allowed the exit status is 1. An hour, unless `--minutes` says otherwise; two minutes with
`--quick`.

`views`: milliseconds until each view shows its answer, opened in a fresh browser and come to from
another view, on 5,000,000 jobs (`--jobs`; 50,000 with `--quick`) beside 1,000. More than a second
makes the exit status 1.
"""

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Final

from bench.console import growth, views
from bench.reads.__main__ import installation
from bench.report import Figure, arguments, print_figures
from bench.server import bench_server
from headgate.store import migration
from tests.console.browser import chromium
from tests.contract.serving import address_of, starting
from tests.forks import Fork, anew

_FEW: Final = 1_000
_MOST_MS: Final = 1_000
_NUMBERS: Final = {"minutes": "how long the tab stays open", "jobs": "how many jobs there are"}


def site(process: Fork) -> str:
    host, port = address_of(process)
    return f"http://{host}:{port}/"


def main() -> None:
    options = arguments(__doc__.splitlines()[0], measures=("growth", "views"), numbers=_NUMBERS)
    browser = chromium()
    if browser is None:
        sys.exit("there is no Chromium here: install one, or name it in HEADGATE_CHROMIUM")
    figures: list[Figure] = []
    kept = True
    with (
        bench_server() as server,
        tempfile.TemporaryDirectory() as directory,
        starting(Path(directory), anew) as start,
    ):
        if "growth" in options.measure:
            minutes = options.minutes or (2 if options.quick else 60)
            dsn = server.new_database()
            asyncio.run(migration.upgrade(dsn, "public"))
            grown = asyncio.run(growth.measure(browser, site(start(dsn)), dsn, minutes=minutes))
            figures += grown
            kept = all(growth.is_kept(figure) for figure in grown)
        if "views" in options.measure:
            jobs = int(options.jobs or (50_000 if options.quick else 5_000_000))
            many, few = (site(start(installation(server, size))) for size in (jobs, _FEW))
            found = asyncio.run(views.measure(browser, many, few, rounds=3 if options.quick else 5))
            figures += found
            kept = kept and all(figure.ours <= _MOST_MS for figure in found)
    print_figures(figures, as_json=options.json)
    sys.exit(not kept)


if __name__ == "__main__":
    main()
