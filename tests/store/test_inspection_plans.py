"""No read walks the table: every page is served by the index of its narrowest filter."""

from collections.abc import Mapping
from typing import Any

import pytest
from sqlalchemy import Executable

from headgate.model.job import JobFilter
from headgate.queries.job_pages import WINDOW
from headgate.queries.jobs import one_job, probe
from headgate.store.database import READ_SETTINGS, Row
from headgate.store.search import search_jobs
from headgate.store.store import Store
from tests.store.plans import MODES, Node, PlanMode, pages_read, plan_of, scans_of
from tests.store.rows import Observer

PAGE = 50

# 30,000 old jobs of a queue and a kind that nobody uses any more, under newer ones of few others.
_FILL = """
WITH written AS (
  INSERT INTO headgate_job (ulid, kind, payload, queue, state, fingerprint, enqueued_at_ms,
    scheduled_at_ms)
  SELECT 'job' || n, CASE WHEN n <= 3000 THEN 'retired' ELSE 'mail' END, '',
    CASE WHEN n <= 3000 THEN 'retired' ELSE 'default' END,
    (CASE n % 5 WHEN 0 THEN 'available' WHEN 1 THEN 'archived' ELSE 'completed' END
      )::headgate_state, 'f' || n % 100, 1, 1
  FROM generate_series(1, 30000) AS n RETURNING id
)
INSERT INTO headgate_job_tag (job_id, tag) SELECT id, 'common' FROM written
UNION ALL SELECT id, 'rare' FROM written WHERE id % 5000 = 0
"""

# The filters of a page and the index that has to serve it.
PAGES: dict[str, tuple[JobFilter, str]] = {
    "plain": (JobFilter(), "headgate_job_pkey"),
    "id": (JobFilter(id="job5"), "headgate_job_ulid_key"),
    "id and state": (JobFilter(id="job5", state="archived"), "headgate_job_ulid_key"),
    "queue": (JobFilter(queue="retired"), "headgate_job_queue"),
    "queue and state": (JobFilter(queue="retired", state="completed"), "headgate_job_queue"),
    "kind": (JobFilter(kind="retired"), "headgate_job_kind"),
    "kind and state": (JobFilter(kind="retired", state="available"), "headgate_job_kind"),
    "state": (JobFilter(state="archived"), "headgate_job_state"),
    "state without jobs": (JobFilter(state="quarantined"), "headgate_job_state"),
    "queue without jobs": (JobFilter(queue="none"), "headgate_job_queue"),
    "a common tag": (JobFilter(tags_all=("common",)), "headgate_job_tag_lookup"),
    "a rare tag": (JobFilter(tags_all=("rare",)), "headgate_job_tag_lookup"),
    "both": (JobFilter(tags_all=("common", "rare")), "headgate_job_tag_lookup"),
}


class Recorder:
    """Runs statements and remembers them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.statements: list[tuple[Executable, Mapping[str, Any]]] = []

    async def fetch(
        self, statement: Executable, parameters: Mapping[str, Any] | None = None
    ) -> list[Row]:
        self.statements.append((statement, dict(parameters or {})))
        return await self._store.database.fetch(statement, parameters)

    async def transact(self, work: Any) -> Any:
        raise AssertionError("a read needs no transaction")


async def page_plan(
    store: Store, observer: Observer, where: JobFilter, mode: PlanMode
) -> list[list[Node]]:
    """The plan of each statement that one page takes."""
    recorder = Recorder(store)
    await search_jobs(recorder, where, None, PAGE)
    return [await plan_of(observer, *asked, mode) for asked in recorder.statements]


def scans(plans: list[list[Node]]) -> set[str]:
    tables = ("headgate_job", "headgate_job_tag")
    return {scan for plan in plans for table in tables for scan in scans_of(plan, table)}


@pytest.mark.parametrize("mode", MODES)
async def test_every_page_is_served_by_an_index(
    store: Store, observer: Observer, mode: PlanMode
) -> None:
    await observer.execute(_FILL)
    await observer.execute("VACUUM ANALYZE headgate_job, headgate_job_tag")
    for name, (where, index) in PAGES.items():
        plans = await page_plan(store, observer, where, mode)
        found = scans(plans)
        bounded = all(scan.startswith(("Index Scan", "Index Only Scan")) for scan in found)
        assert bounded, (name, found)
        assert any(index in scan for scan in found), (name, found)
        touched = sum(map(pages_read, plans))
        assert touched < 12 * PAGE, (name, touched)


@pytest.mark.parametrize("mode", MODES)
async def test_a_plan_without_statistics_does_not_walk_the_table(
    store: Store, observer: Observer, mode: PlanMode
) -> None:
    await observer.execute(_FILL)
    for name, (where, _) in PAGES.items():
        found = scans(await page_plan(store, observer, where, mode))
        assert "Seq Scan" not in found, (name, found)


@pytest.mark.parametrize("statistics", [False, True])
@pytest.mark.parametrize("mode", MODES)
async def test_a_fingerprint_is_found_by_its_hash(
    store: Store, observer: Observer, mode: PlanMode, *, statistics: bool
) -> None:
    await observer.execute(_FILL)
    if statistics:
        await observer.execute("VACUUM ANALYZE headgate_job, headgate_job_tag")
    for name, value in READ_SETTINGS.items():
        await observer.execute("SELECT set_config($1, $2, false)", name, value)
    for where in (
        JobFilter(fingerprint="f7"),
        JobFilter(fingerprint="f6", state="archived"),
        JobFilter(fingerprint="nobody's"),
    ):
        plans = await page_plan(store, observer, where, mode)
        assert any("headgate_job_fingerprint" in scan for scan in scans(plans)), scans(plans)
        assert not {"Seq Scan", "Bitmap Heap Scan"} & scans(plans)
        # Without a state, a window of all jobs is looked at for completed ones.
        assert sum(map(pages_read, plans)) < (12 * PAGE if where.state else WINDOW)


async def test_single_jobs_are_point_reads(store: Store, observer: Observer) -> None:
    await observer.execute(_FILL)
    for mode in MODES:
        for statement in (one_job(payload=True), probe()):
            plan = await plan_of(observer, statement, {"job_id": "job7"}, mode)
            assert scans_of(plan, "headgate_job") == {"Index Scan headgate_job_ulid_key"}
            assert pages_read(plan) < 20
