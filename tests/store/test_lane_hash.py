"""Lanes and fingerprints that share a hash are kept apart all the same."""

import pytest

from headgate.model.job import JobFilter
from headgate.store.store import Store
from tests.store.backlog import admit, bucket, fill
from tests.store.conftest import OpenStore
from tests.store.rows import HOUR_MS, Observer, assert_lanes

# Found before PostgreSQL's own by whoever connects from now on, and by the indexes.
_SAME_FOR_ALL = """
CREATE FUNCTION public.hashtextextended(text, bigint) RETURNS bigint
  LANGUAGE sql IMMUTABLE AS 'SELECT 7::bigint';
DO $$ BEGIN
  EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database());
END $$;
SET search_path = public, pg_catalog;
"""


@pytest.fixture
async def store(observer: Observer, open_store: OpenStore) -> Store:
    """A store on a database in which every hash is the same."""
    indexes = await observer.fetch(
        "SELECT indexname, indexdef FROM pg_indexes WHERE indexdef LIKE '%hashtextextended(%'"
    )
    assert {row["indexname"] for row in indexes} == {
        "headgate_job_fingerprint",
        "headgate_job_lane",
    }
    await observer.execute(_SAME_FOR_ALL)
    for row in indexes:
        await observer.execute(f"DROP INDEX {row['indexname']}; {row['indexdef']}")
    return open_store()


async def test_each_lane_has_its_own_policies(store: Store, observer: Observer) -> None:
    await bucket(observer, "api", 1, window_ms=HOUR_MS, tokens=1)
    await fill(store, 3, partition_key="limited", rate_class="api")
    await fill(store, 2, partition_key="plain")
    await fill(store, 2, partition_key="urgent", priority=9)
    await fill(store, 2, partition_key="pinned", sticky_worker="another")
    await fill(store, 2, queue="elsewhere")
    claims = [claim for _ in range(9) for claim in await admit(store, 1)]
    keys = [claim.partition_key for claim in claims]
    assert keys[:2] == ["urgent", "urgent"]
    assert sorted(keys[2:]) == ["limited", "plain", "plain"]
    assert len(await admit(store, 10)) == 0
    assert [claim.partition_key for claim in await admit(store, 10, worker="another")] == [
        "pinned",
        "pinned",
    ]
    await assert_lanes(observer)


async def test_one_lane_alone_is_drawn_in_its_order(store: Store) -> None:
    await fill(store, 1, queue="elsewhere")
    await fill(store, 5)
    claims = [claim for _ in range(6) for claim in await admit(store, 1)]
    assert [claim.queue for claim in claims] == ["default"] * 5
    ids = [claim.lease.job_id for claim in claims]
    assert ids == sorted(ids)


async def test_fingerprints_are_listed_apart(store: Store) -> None:
    await fill(store, 2, fingerprint="one")
    await fill(store, 3, fingerprint="two")
    page = await store.inspection.jobs(JobFilter(fingerprint="one"), cursor=None, limit=10)
    assert [job.fingerprint for job in page.jobs] == ["one", "one"]
