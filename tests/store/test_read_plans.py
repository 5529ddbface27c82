"""What reads cost on many unevenly spread jobs: indexes alone, few pages, few statements.

Windows are shrunk, so that reading a whole window is far from reading everything.
"""

import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager

import asyncpg
import pytest

from headgate.local.connection import blocking
from headgate.queries import blocked, job_pages, job_search
from headgate.queries.memory import sample_memory
from headgate.store import search
from headgate.store.database import READ_SETTINGS
from headgate.store.settings import StoreSettings
from headgate.store.store import Store
from headgate.testing.clones import Clones
from tests.contract.reading import reading_on
from tests.contract.routes import routes
from tests.store.plans import MODES, PlanMode, pages_read, plan_of, scans_of
from tests.store.reads import LISTS, READS, Read, listed
from tests.store.recording import Asked, Recorder
from tests.store.rows import Observer
from tests.store.skewed import JOBS, fill_skewed, forget_statistics

WINDOW = 200
EVERYTHING = {**LISTS, **READS}
GROWING = {"queues", "partitions", "rate classes", "blocked"}

MakeDatabase = Callable[[str], AbstractContextManager[str]]


@pytest.fixture(scope="module")
def make_database(headgate_clones: Clones) -> MakeDatabase:
    @contextmanager
    def make(template: str) -> Iterator[str]:
        name = f"headgate_test_{secrets.token_hex(4)}"
        try:
            yield headgate_clones.clone(template, name)
        finally:
            headgate_clones.drop(name)

    return make


@pytest.fixture(scope="module")
def skewed(make_database: MakeDatabase, headgate_template: str) -> Iterator[str]:
    """The DSN of the database with many jobs, analyzed. For reading only."""
    with make_database(headgate_template) as dsn:
        blocking(fill_skewed(dsn))
        yield dsn


@pytest.fixture(scope="module")
def forgotten(make_database: MakeDatabase, skewed: str) -> Iterator[str]:
    """The same jobs, of which the planner knows nothing."""
    with make_database(skewed.rpartition("/")[2]) as dsn:
        blocking(forget_statistics(dsn))
        yield dsn


@pytest.fixture(scope="module")
def smaller(make_database: MakeDatabase, headgate_template: str) -> Iterator[str]:
    """A quarter of the jobs."""
    with make_database(headgate_template) as dsn:
        blocking(fill_skewed(dsn, JOBS // 4))
        yield dsn


@pytest.fixture
def dsn(request: pytest.FixtureRequest) -> str:
    """The DSN of the database that a test asks for by name."""
    found: str = request.getfixturevalue(request.param)
    return found


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for module in (job_pages, search, blocked):
        monkeypatch.setattr(module, "WINDOW", WINDOW)
    for module in (job_search, search):
        monkeypatch.setattr(module, "PROBE", WINDOW)
    monkeypatch.setattr(search, "_MERGED_WINDOW", WINDOW)
    monkeypatch.setattr(search, "_MERGED_ENTRIES", 10 * WINDOW)
    monkeypatch.setattr(search, "_SEARCH_BUDGET", 3 * WINDOW)
    _forget_statements()
    yield
    _forget_statements()


def _forget_statements() -> None:
    for statement in (job_pages.page_of_jobs, job_search.stream_sizes, blocked.blocked_jobs):
        statement.cache_clear()


class Guard:
    """A store on a database, and a session whose planner is set as that of its reads."""

    def __init__(self, store: Store, reader: Observer) -> None:
        self.store = store
        self.reader = reader

    async def asked(self, read: Read) -> list[Asked]:
        """Each statement of a read, as it is asked first."""
        recorder = Recorder(self.store.database)
        await read.ask(recorder)
        first: dict[int, Asked] = {}
        for asked in recorder.asked:
            first.setdefault(id(asked.statement), asked)
        return list(first.values())

    async def cost(self, read: Read, mode: PlanMode) -> tuple[int, set[str]]:
        """The pages that the dearest statement touches, and how all of them read jobs and tags."""
        pages, scans = 0, set[str]()
        for asked in await self.asked(read):
            plan = await plan_of(self.reader, *asked, mode)
            pages = max(pages, pages_read(plan))
            scans |= scans_of(plan, "headgate_job") | scans_of(plan, "headgate_job_tag")
        return pages, scans


@asynccontextmanager
async def guard_on(dsn: str) -> AsyncIterator[Guard]:
    reader = await asyncpg.connect(dsn, server_settings={"jit": "off", **READ_SETTINGS})
    try:
        async with Store(StoreSettings(dsn=dsn)) as store:
            yield Guard(store, reader)
    finally:
        await reader.close()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dsn", ["skewed", "forgotten"], indirect=True)
async def test_reads_are_bounded(dsn: str, mode: PlanMode) -> None:
    async with guard_on(dsn) as guard:
        for name, read in EVERYTHING.items():
            pages, scans = await guard.cost(read, mode)
            assert all(each.startswith(("Index Scan", "Index Only Scan")) for each in scans), name
            assert any(read.served_by in each for each in scans) or not scans, (name, scans)
            assert pages <= read.pages, (name, pages)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dsn", ["skewed", "forgotten"], indirect=True)
async def test_every_route_that_reads_is_bounded(dsn: str, mode: PlanMode) -> None:
    async with reading_on(dsn) as reading:
        for request in routes():
            for asked in await reading.plans(request.target, mode):
                scans = scans_of(asked.plan, "headgate_job")
                assert all(each.startswith(("Index Scan", "Index Only Scan")) for each in scans), (
                    request.target
                )
                assert pages_read(asked.plan) <= request.bound.pages, request.target


async def test_reads_cost_no_more_where_there_is_more(skewed: str, smaller: str) -> None:
    mode: PlanMode = "force_generic_plan"
    async with guard_on(skewed) as guard, guard_on(smaller) as small_guard:
        for name in EVERYTHING.keys() - GROWING:
            read = EVERYTHING[name]
            pages, _ = await guard.cost(read, mode)
            fewer, _ = await small_guard.cost(read, mode)
            # Five pages for each job that a fuller list shows.
            assert pages <= 1.5 * fewer + 5 * 50, (name, fewer, pages)


@pytest.mark.parametrize(("queue", "state"), [("q000", "completed"), (None, "available")])
async def test_a_deep_page_costs_what_the_first_one_does(
    skewed: str, queue: str | None, state: str
) -> None:
    mode: PlanMode = "force_generic_plan"
    async with guard_on(skewed) as guard:
        first, _ = await guard.cost(listed(0, "", queue=queue, state=state), mode)
        deep_read = listed(0, "", cursor=JOBS // 4, queue=queue, state=state)
        deep, _ = await guard.cost(deep_read, mode)
    assert deep <= 1.3 * first + 10


async def test_a_sample_of_memory_is_bounded(skewed: str) -> None:
    async with guard_on(skewed) as guard:
        for mode in MODES:
            plan = await plan_of(guard.reader, sample_memory(), {"sample_size": 10}, mode)
            scans = scans_of(plan, "headgate_job")
            assert all(each.startswith(("Index Scan", "Index Only Scan")) for each in scans)
            # Ten states of 42 queues, ten jobs each.
            assert pages_read(plan) < 42 * (10 * 4 + 10 * 5) + 1_000
