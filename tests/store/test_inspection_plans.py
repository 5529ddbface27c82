"""No read walks the table: every page is served by the index of its first filter."""

from typing import Any

import pytest

from headgate.model.envelope import Envelope
from headgate.queries.jobs import one_job, page_of_jobs, probe
from headgate.store.store import Store
from tests.store.plans import MODES, PlanMode, pages_read, plan_of, scans_of
from tests.store.rows import Observer

JOBS = 20_000
PAGE = 50

_SPREAD = """
UPDATE headgate_job SET state = (CASE WHEN id % 10 = 0 THEN 'available' WHEN id % 10 = 1
  THEN 'archived' ELSE 'completed' END)::headgate_state WHERE id > 2000
"""

# The filters of a page and what serves it.
PAGES: dict[str, tuple[dict[str, Any], str | None, str]] = {
    "plain": ({}, None, "headgate_job_pkey"),
    "id": ({"id": "job5"}, None, "headgate_job_ulid_key"),
    "queue": ({"queue": "retired"}, None, "headgate_job_queue"),
    "queue and state": ({"queue": "retired"}, "completed", "headgate_job_queue"),
    "kind": ({"kind": "retired"}, None, "headgate_job_kind"),
    "kind and state": ({"kind": "retired"}, "available", "headgate_job_kind"),
    "state": ({}, "archived", "headgate_job_state"),
    "state without jobs": ({}, "quarantined", "headgate_job_state"),
    "queue without jobs": ({"queue": "none"}, None, "headgate_job_queue"),
}
TAGGED: dict[str, tuple[dict[str, Any], str | None]] = {
    "a common tag": ({"tags_all": ["common"]}, None),
    "a rare tag": ({"tags_all": ["rare"]}, None),
    "both": ({"tags_all": ["rare", "common"]}, None),
    "in a state": ({"tags_all": ["common"]}, "archived"),
}


async def fill(store: Store, observer: Observer) -> None:
    """Many jobs in one queue, and old ones of a queue and a kind that nobody uses any more."""
    for start in range(0, JOBS, 1_000):
        old = start < 2_000
        await store.producer.enqueue(
            [
                Envelope(
                    kind="retired" if old else "mail",
                    queue="retired" if old else "default",
                    id=f"job{number}",
                    tags=("common", "rare") if number % 4_000 == 0 else ("common",),
                )
                for number in range(start, start + 1_000)
            ]
        )
    await observer.execute(_SPREAD)


async def page_plan(
    observer: Observer, filters: dict[str, Any], state: str | None, mode: PlanMode
) -> Any:
    parameters = {f"wanted_{name}": value for name, value in filters.items()}
    if "tags_all" in filters:
        parameters["wanted_tag"] = filters["tags_all"][0]
    bounds = {"before_id": 2**63 - 1, "page_size": PAGE}
    statement = page_of_jobs(frozenset(filters), state)
    return await plan_of(observer, statement, parameters | bounds, mode)


def is_bounded(scans: set[str]) -> bool:
    return all(scan.startswith(("Index Scan", "Index Only Scan")) for scan in scans)


@pytest.mark.parametrize("mode", MODES)
async def test_every_page_is_served_by_an_index(
    store: Store, observer: Observer, mode: PlanMode
) -> None:
    await fill(store, observer)
    await observer.execute("VACUUM ANALYZE headgate_job, headgate_job_tag")
    for name, (filters, state, index) in PAGES.items():
        plan = await page_plan(observer, filters, state, mode)
        scans = scans_of(plan, "headgate_job")
        assert is_bounded(scans), (name, scans)
        assert any(index in scan for scan in scans), (name, scans)
        assert pages_read(plan) < 10 * PAGE, (name, pages_read(plan))
    for name, (filters, state) in TAGGED.items():
        plan = await page_plan(observer, filters, state, mode)
        scans = scans_of(plan, "headgate_job") | scans_of(plan, "headgate_job_tag")
        assert "Seq Scan" not in scans, (name, scans)
        assert any("headgate_job_tag_lookup" in scan for scan in scans), (name, scans)
    for statement in (one_job(payload=True), probe()):
        plan = await plan_of(observer, statement, {"job_id": "job7"}, mode)
        assert is_bounded(scans_of(plan, "headgate_job"))
        assert pages_read(plan) < 30


async def test_a_plan_without_statistics_does_not_walk_the_table(
    store: Store, observer: Observer
) -> None:
    await fill(store, observer)
    for mode in MODES:
        for name, (filters, state, _) in PAGES.items():
            plan = await page_plan(observer, filters, state, mode)
            assert "Seq Scan" not in scans_of(plan, "headgate_job"), (mode, name)
