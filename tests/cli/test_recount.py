"""`headgate recount`, as a user starts it."""

import os
from pathlib import Path

from headgate.store.store import Store
from tests.forks import Ended, Fork, headgate
from tests.store.backlog import admit, fill
from tests.store.conftest import observer as observer  # the fixture
from tests.store.counts import assert_exact
from tests.store.rows import Observer


def recount(dsn: str) -> Ended:
    environment = {**os.environ, "HEADGATE_DATABASE_URL": dsn}
    return Fork(headgate("recount"), directory=Path.cwd(), environment=environment).wait()


async def test_counts_and_lanes_are_right_after_a_restore_of_the_jobs_alone(
    headgate_database: str, store: Store, observer: Observer
) -> None:
    await fill(store, 7, partition_key="p")
    await fill(store, 5, queue="other")
    for table in ("ledger", "queue_count", "partition_count", "active_partition", "inflight"):
        await observer.execute(f"DELETE FROM headgate_{table}")  # noqa: S608  # a constant
    done = recount(headgate_database)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "counted 12 jobs",
        "corrected 2 counts of queues, 2 of partitions",
        "registered 2 lanes",
    ]
    await assert_exact(observer)
    assert len(await admit(store, 20, "default", "other")) == 12
    again = recount(headgate_database)
    assert again.stdout.splitlines() == [
        "counted 12 jobs",
        "corrected 0 counts of queues, 0 of partitions",
        "registered 0 lanes",
    ]


def test_an_unreachable_database_is_one_line() -> None:
    done = recount("postgresql://nobody@127.0.0.1:1/none")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("headgate: ")
    assert done.stderr.count("\n") == 1
