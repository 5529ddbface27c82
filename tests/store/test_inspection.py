"""Reading jobs: the same answers as the naive query, page after page, in bounded steps."""

import itertools
import random
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import msgspec
import pytest

from headgate.model.envelope import Envelope
from headgate.model.job import Job, JobFilter, PeriodicOrigin
from headgate.model.lifecycle import State
from headgate.queries import job_pages, job_search
from headgate.store import search
from headgate.store.store import Store
from tests.store.journeys import bring
from tests.store.rows import HOUR_MS, Observer, job_row, now_ms, start

FILTERS: dict[str, list[Any]] = {
    "id": ["job7", "job123", "nobody"],
    "queue": ["default", "a", "b", "nobody's"],
    "state": [*State, "unheard of"],
    "kind": ["mail", "mail:send", "report", "nothing"],
    "kind_prefix": ["mail", "mail:", "r", "", "%"],
    "partition_key": ["", "p", "nobody's"],
    "rate_class": ["", "smtp", "nobody's"],
    "fingerprint": ["f1", "f2", "nobody's"],
    "priority": [0, 5, -5, 2**31 - 1],
    "tags_all": [("x",), ("x", "y"), ("x", "y", "z"), ("x", "x"), ("nobody's",)],
    "tags_any": [("x",), ("y", "z"), ("nobody's", "z")],
}

_SPREAD_STATES = """
UPDATE headgate_job SET state = $2::text::headgate_state,
  lease_id = CASE WHEN $2 = 'running' THEN 'lease' END WHERE ulid = ANY($1)
"""


class Sample(msgspec.Struct):
    """A job as the naive query sees it."""

    id: str
    queue: str
    state: str
    kind: str
    partition_key: str
    rate_class: str
    fingerprint: str
    priority: int
    tags: tuple[str, ...]

    def meets(self, where: JobFilter) -> bool:
        equal = all(
            wanted is None or getattr(self, name) == wanted
            for name in Sample.__struct_fields__
            if name != "tags"
            for wanted in [getattr(where, name)]
        )
        return (
            equal
            and (where.kind_prefix is None or self.kind.startswith(where.kind_prefix))
            and set(where.tags_all) <= set(self.tags)
            and (not where.tags_any or bool(set(where.tags_any) & set(self.tags)))
        )


def sample(number: int, dice: random.Random) -> Sample:
    return Sample(
        id=f"job{number}",
        queue=dice.choice(["default", "default", "a", "b"]),
        state=dice.choice(list(State)),
        kind=dice.choice(["mail", "mail:send", "mail:reply", "report"]),
        partition_key=dice.choice(["", "", "p"]),
        rate_class=dice.choice(["", "smtp"]),
        fingerprint=dice.choice(["f1", "f2", "f3"]),
        priority=dice.choice([0, 0, 5, -5]),
        tags=tuple(tag for tag in "xyz" if dice.random() < 0.4),
    )


async def write(store: Store, observer: Observer, samples: list[Sample]) -> None:
    fields = set(Sample.__struct_fields__) - {"state"}
    await store.producer.enqueue(
        [Envelope(**{name: getattr(each, name) for name in fields}) for each in samples]
    )
    for state in State:
        ids = [each.id for each in samples if each.state == state]
        await observer.execute(_SPREAD_STATES, ids, state)


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A statement looks at eleven entries, and a page at no more than forty-four.

    A stream is long from the sixth entry on, and three kinds are many.
    """
    for module in (job_pages, search):
        monkeypatch.setattr(module, "WINDOW", 11)
    for module in (job_search, search):
        monkeypatch.setattr(module, "PROBE", 6)
        monkeypatch.setattr(module, "MAX_KINDS", 2)
    for name, value in (("_MERGED_WINDOW", 11), ("_MERGED_ENTRIES", 14), ("_SEARCH_BUDGET", 44)):
        monkeypatch.setattr(search, name, value)
    _forget_statements()
    yield
    _forget_statements()


def _forget_statements() -> None:
    for statement in (
        job_pages.page_of_jobs,
        job_search.kinds_with_prefix,
        job_search.stream_sizes,
    ):
        statement.cache_clear()


async def pages(store: Store, where: JobFilter, limit: int) -> AsyncIterator[list[Job]]:
    cursor: int | None = None
    while True:
        page = await store.inspection.jobs(where, cursor=cursor, limit=limit)
        assert len(page.jobs) <= limit
        yield page.jobs
        if page.next_cursor is None:
            return
        assert cursor is None or int(page.next_cursor) < cursor
        cursor = int(page.next_cursor)


async def walk(store: Store, where: JobFilter, limit: int) -> list[str]:
    return [job.id async for page in pages(store, where, limit) for job in page]


def single_filters() -> Iterator[JobFilter]:
    yield JobFilter()
    for name, values in FILTERS.items():
        for value in values:
            yield JobFilter(**{name: value})


def paired_filters(dice: random.Random) -> Iterator[JobFilter]:
    for first, second in itertools.combinations(FILTERS, 2):
        for _ in range(2):
            yield JobFilter(
                **{first: dice.choice(FILTERS[first]), second: dice.choice(FILTERS[second])}
            )


def tripled_filters(dice: random.Random) -> Iterator[JobFilter]:
    for names in dice.sample(list(itertools.combinations(FILTERS, 3)), 40):
        yield JobFilter(**{name: dice.choice(FILTERS[name]) for name in names})


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize(
    "filters",
    [lambda dice: single_filters(), paired_filters, tripled_filters],
    ids=["single", "pairs", "triples"],
)
async def test_the_walk_equals_the_naive_query(
    store: Store, observer: Observer, filters: Callable[[random.Random], Iterator[JobFilter]]
) -> None:
    dice = random.Random(7)
    samples = [sample(number, dice) for number in range(300)]
    await write(store, observer, samples)
    for where in filters(dice):
        expected = [each.id for each in reversed(samples) if each.meets(where)]
        assert await walk(store, where, dice.choice([1, 4, 50])) == expected, where


@pytest.mark.usefixtures("small_windows")
async def test_a_page_stops_at_its_budget_and_says_where(store: Store, observer: Observer) -> None:
    samples = [sample(number, random.Random(number)) for number in range(100)]
    samples[3].rate_class = "rare"
    await write(store, observer, samples)
    page = await store.inspection.jobs(JobFilter(rate_class="rare"), cursor=None, limit=5)
    assert page.jobs == []
    assert page.next_cursor is not None
    newest = await observer.fetchval("SELECT max(id) FROM headgate_job")
    assert int(page.next_cursor) == newest - 43
    found = [each async for each in pages(store, JobFilter(rate_class="rare"), 5)]
    assert [len(each) for each in found] == [0, 0, 1]


async def test_a_full_page_has_a_cursor_and_a_short_one_none(
    store: Store, observer: Observer
) -> None:
    await store.producer.enqueue([Envelope(kind="mail")] * 4)
    page = await store.inspection.jobs(JobFilter(), cursor=None, limit=2)
    ids = [row["id"] for row in await observer.fetch("SELECT id FROM headgate_job ORDER BY 1")]
    assert page.next_cursor == str(ids[2])
    page = await store.inspection.jobs(JobFilter(), cursor=ids[2], limit=2)
    assert (len(page.jobs), page.next_cursor) == (2, str(ids[0]))
    page = await store.inspection.jobs(JobFilter(), cursor=ids[0], limit=2)
    assert (page.jobs, page.next_cursor) == ([], None)


@pytest.mark.parametrize("cursor", [0, -1, -(2**63), -(2**70)])
async def test_before_the_first_there_is_nothing(store: Store, cursor: int) -> None:
    await store.producer.enqueue([Envelope(kind="mail")])
    page = await store.inspection.jobs(JobFilter(), cursor=cursor, limit=5)
    assert (page.jobs, page.next_cursor) == ([], None)


@pytest.mark.parametrize("cursor", [2**63 - 1, 2**63, 2**70])
async def test_a_cursor_past_all_ids_is_the_beginning(store: Store, cursor: int) -> None:
    await store.producer.enqueue([Envelope(kind="mail")])
    for where in (JobFilter(), JobFilter(state="available"), JobFilter(queue="default")):
        page = await store.inspection.jobs(where, cursor=cursor, limit=5)
        assert len(page.jobs) == 1


@pytest.mark.parametrize(
    "where",
    [
        JobFilter(state="unheard of"),
        JobFilter(state="available'"),
        JobFilter(queue="a\0"),
        JobFilter(id="\0"),
        JobFilter(tags_all=("x", "\0")),
        JobFilter(tags_any=("\ud800",)),
        JobFilter(kind_prefix="\udfff"),
        JobFilter(priority=2**31),
        JobFilter(priority=-(2**31) - 1),
    ],
)
async def test_what_no_row_can_hold_is_not_found(store: Store, where: JobFilter) -> None:
    await store.producer.enqueue([Envelope(kind="mail", tags=("x",))])
    page = await store.inspection.jobs(where, cursor=None, limit=5)
    assert (page.jobs, page.next_cursor) == ([], None)


async def test_a_job_with_everything(store: Store, observer: Observer) -> None:
    [enqueued] = await store.producer.enqueue(
        [
            Envelope(
                kind="mail",
                payload=b"\0\xff",
                queue="q",
                schema_version=3,
                priority=4,
                max_attempts=5,
                partition_key="p",
                rate_class="r",
                sticky_worker="w",
                weight=6,
                fingerprint="f",
                headers={"traceparent": "t", "é": '"'},
                tags=("b", "a"),
                periodic_schedule_id="nightly",
                periodic_tick_ms=60_000,
            )
        ]
    )
    await start(observer, [enqueued.id])
    await observer.execute(
        "UPDATE headgate_job SET attempt = 1, crash_attempt = 2, errors = '[{\"at_ms\": 1}]'"
    )
    row = await job_row(observer, enqueued.id)
    assert row is not None
    expected = Job(
        id=enqueued.id,
        kind="mail",
        queue="q",
        state="running",
        schema_version=3,
        priority=4,
        attempt=1,
        crash_attempt=2,
        orphaned=True,
        max_attempts=5,
        partition_key="p",
        rate_class="r",
        sticky_worker="w",
        weight=6,
        fingerprint="f",
        enqueued_at_ms=row["enqueued_at_ms"],
        scheduled_at_ms=row["scheduled_at_ms"],
        claimed_at_ms=row["claimed_at_ms"],
        periodic_origin=PeriodicOrigin("nightly", 60_000),
        finalized_at_ms=None,
        errors=[{"at_ms": 1}],
        tags=["a", "b"],
    )
    assert await store.inspection.job(enqueued.id) == expected
    page = await store.inspection.jobs(JobFilter(), cursor=None, limit=1)
    assert page.jobs == [expected]
    expected.payload = b"\0\xff"
    expected.metadata = {"traceparent": "t", "é": '"'}
    assert await store.inspection.job(enqueued.id, include_payload=True) == expected


async def test_a_plain_job(store: Store, observer: Observer) -> None:
    job_id = await bring(store, observer, Envelope(kind="mail"), State.COMPLETED)
    job = await store.inspection.job(job_id, include_payload=True)
    assert job is not None
    assert (job.payload, job.metadata, job.errors, job.tags) == (b"", {}, [], [])
    assert (job.orphaned, job.periodic_origin) == (False, None)
    assert job.finalized_at_ms is not None
    assert job.finalized_at_ms > await now_ms(observer) - HOUR_MS


@pytest.mark.parametrize("job_id", ["nobody", "", "a\0b", "\ud800", "x" * 100_000])
async def test_no_such_job(store: Store, job_id: str) -> None:
    assert await store.inspection.job(job_id) is None


async def test_the_probe_needs_the_tables(store: Store, observer: Observer) -> None:
    await store.inspection.ping()
    await observer.execute("ALTER TABLE headgate_job RENAME TO gone")
    with pytest.raises(Exception, match="run `headgate migrate up`"):
        await store.inspection.ping()
