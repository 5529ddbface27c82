"""What actions, operations and sweeps read: their index and nothing else, and next to nothing when
there is nothing to do.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Executable

from headgate.model.lifecycle import OperatorAction, State
from headgate.model.operation import reached_states
from headgate.queries import (
    archive,
    bulk,
    dead_letters,
    history,
    operations,
    operators,
    quarantine,
    queue_deletion,
)
from headgate.store.database import GATE_SETTINGS
from headgate.store.store import Store
from tests.store.plans import MODES, Node, pages_read, plan_of, scans_of
from tests.store.rows import Observer
from tests.store.sweeps import DAY_MS, IDLE_PAGES, SWEEPS, fill_idle

MANY = 10**12

# Statements on jobs, and the indexes by which alone they may come to them.
READS: dict[str, tuple[Executable, dict[str, Any], set[str]]] = {
    "lock": (
        operators.lock_jobs(),
        {"job_id_array": ["job1", "job500", "nobody"]},
        {"headgate_job_ulid_key"},
    ),
    "retry": (
        operators.enter_available(OperatorAction.RETRY),
        {"row_id_array": [1, 2, 3]},
        {"headgate_job_pkey", "headgate_job_unique", "headgate_job_unique_throttle"},
    ),
    "holders": (
        operators.key_holders(),
        {"row_id_array": [1, 2, 3]},
        {"headgate_job_pkey", "headgate_job_unique", "headgate_job_unique_throttle"},
    ),
    "cancel": (operators.cancel_jobs(), {"row_id_array": [10, 20]}, {"headgate_job_pkey"}),
    "delete": (operators.delete_jobs(), {"row_id_array": [10, 20]}, {"headgate_job_pkey"}),
    "lock free": (
        bulk.lock_free_jobs(reached_states("cancel", None)),
        {"row_id_array": [10, 20]},
        {"headgate_job_pkey"},
    ),
    "park": (quarantine.park_waiting(), {"row_id_array": [10, 20]}, {"headgate_job_pkey"}),
    "parked": (
        quarantine.lock_parked(),
        {"wanted_fingerprint": "f50", "after_id": 0, "batch_size": 5},
        {"headgate_job_fingerprint"},
    ),
    "dead letters lately": (
        dead_letters.count_dead_letters(),
        {"since_ms": 4 * 10**12, "before_id": 2**63 - 1},
        {"headgate_job_dead_letter", "headgate_job_state"},
    ),
    "any job": (queue_deletion.any_job(), {"queue_name": "q1"}, {"headgate_job_queue"}),
    "no job": (queue_deletion.any_job(), {"queue_name": "nothing"}, {"headgate_job_queue"}),
}

_SELECTION = {
    "wanted_kind": "kind3",
    "wanted_queue": "q3",
    "wanted_partition_key": "p3",
    "wanted_older_than_ms": 1,
    "operation_id": "op1",
}

# The conditions of a selection and the index that drives its stream.
STREAMS = {
    frozenset[str](): "headgate_job_state",
    frozenset({"queue"}): "headgate_job_queue",
    frozenset({"kind"}): "headgate_job_kind",
    frozenset({"kind", "queue"}): "headgate_job_kind",
    frozenset({"partition_key"}): "headgate_job_state",
    frozenset({"queue", "older_than_ms"}): "headgate_job_queue",
}


@pytest.fixture(params=["fresh", "without statistics"])
async def filled(request: pytest.FixtureRequest, observer: Observer, store: Store) -> Observer:
    """A session like those of the hot path, on a database of many jobs."""
    await fill_idle(observer, store, 20_000)
    if request.param == "without statistics":
        await observer.execute("DELETE FROM pg_statistic")
    for name, value in GATE_SETTINGS.items():
        await observer.execute("SELECT set_config($1, $2, false)", name, value)
    return observer


def reads(nodes: list[Node]) -> set[str]:
    """How the plan comes to jobs. Where it writes them, it found them before."""
    return scans_of(nodes, "headgate_job")


async def test_an_idle_sweep_touches_next_to_nothing(filled: Observer) -> None:
    for mode in MODES:
        for name, (statement, parameters) in SWEEPS.items():
            nodes = await plan_of(filled, statement, parameters, mode)
            assert not any("Seq" in scan or "Bitmap" in scan for scan in reads(nodes)), name
            assert pages_read(nodes) <= IDLE_PAGES, (name, mode, pages_read(nodes))


async def test_actions_come_to_their_jobs_by_an_index(filled: Observer) -> None:
    for mode in MODES:
        for name, (statement, parameters, indexes) in READS.items():
            nodes = await plan_of(filled, statement, parameters, mode)
            used = {scan.rpartition(" ")[2] for scan in reads(nodes)}
            assert used <= indexes, (name, mode, reads(nodes))
            assert not any("Seq" in scan for scan in reads(nodes)), (name, mode)


async def test_a_window_has_the_cost_of_a_window(filled: Observer) -> None:
    for mode in MODES:
        for given, index in STREAMS.items():
            for state in (State.COMPLETED, State.AVAILABLE, State.PENDING):
                statement = bulk.window(given, state)
                pages = []
                for after_id in (0, 10_000):
                    parameters = {**_SELECTION, "after_id": after_id, "window_size": 20}
                    nodes = await plan_of(filled, statement, parameters, mode)
                    used = {scan.rpartition(" ")[2] for scan in reads(nodes)}
                    assert used == {index}, (given, state, mode)
                    pages.append(pages_read(nodes))
                assert max(pages) <= 40, (given, state, mode, pages)


@pytest.fixture
def small_estimates(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Not all of the table, for which its heap would be the shortest way."""
    monkeypatch.setattr(bulk, "ESTIMATE", 200)
    bulk.estimate.cache_clear()
    yield
    bulk.estimate.cache_clear()


@pytest.mark.usefixtures("small_estimates")
async def test_an_estimate_follows_the_same_streams(filled: Observer) -> None:
    for mode in MODES:
        for given, index in STREAMS.items():
            statement = bulk.estimate(given, reached_states("cancel", None))
            nodes = await plan_of(filled, statement, _SELECTION, mode)
            used = {scan.rpartition(" ")[2] for scan in reads(nodes)}
            assert used == {index}, (given, mode, reads(nodes))


async def test_lists_of_records_are_read_along_their_indexes(filled: Observer) -> None:
    for mode in MODES:
        for table, statement, parameters, index in (
            (
                "headgate_operation",
                operations.page_of_operations(),
                {"page_size": 50, "page_offset": 0},
                "headgate_operation_",
            ),
            (
                "headgate_queue_counter",
                history.history(one_queue=False),
                {"since_ms": 4 * 10**12, "width_ms": 60_000, "span_ms": DAY_MS},
                "headgate_queue_counter_age",
            ),
        ):
            nodes = await plan_of(filled, statement, parameters, mode)
            scans = scans_of(nodes, table)
            assert scans, table
            assert all("Index" in scan and index in scan for scan in scans), (mode, scans)
            assert pages_read(nodes) <= 3 * IDLE_PAGES, (table, mode, pages_read(nodes))


async def test_the_archive_of_a_queue_is_one_index(filled: Observer) -> None:
    statement = archive.archived_jobs()
    for mode in MODES:
        for queue in ("q", "nothing"):
            parameters = {
                "wanted_queue": queue,
                "before_ms": MANY,
                "before_ulid": "",
                "page_size": 10,
            }
            nodes = await plan_of(filled, statement, parameters, mode)
            assert pages_read(nodes) <= 30, (queue, mode, pages_read(nodes))


async def test_many_quiet_fingerprints_cost_a_probe_each(filled: Observer) -> None:
    await filled.execute(
        "INSERT INTO headgate_quarantine SELECT 'quiet' || n, 'mail', 3, 1"
        " FROM generate_series(1, 5000) AS n"
    )
    for mode in MODES:
        nodes = await plan_of(filled, *SWEEPS["quarantine"], mode)
        assert pages_read(nodes) <= 4 * 3 * quarantine.FINGERPRINTS
