"""A refused batch leaves nothing behind, and of several reasons the first in order is given."""

from collections.abc import Sequence
from typing import Any

import pytest

from headgate.model.envelope import Envelope
from headgate.model.errors import (
    Backpressure,
    DuplicateJob,
    FingerprintQuarantined,
    IdConflict,
    InvalidRequest,
    StoreError,
)
from headgate.store.store import Store
from tests.store.conftest import OpenStore
from tests.store.rows import Observer

TABLES = (
    "headgate_job",
    "headgate_job_tag",
    "headgate_active_partition",
    "headgate_inflight",
    "headgate_ledger",
    "headgate_enqueue_key",
)

CONFLICT = Envelope(kind="mail", id="known", payload=b"other")
QUARANTINED = Envelope(kind="mail", fingerprint="bad")
OVER_LIMIT = Envelope(kind="mail", queue="full")
DUPLICATE = Envelope(kind="mail", unique_key=b"held")
BLAMELESS = Envelope(kind="mail", tags=("t",), partition_key="new")

# In the order of precedence.
REASONS: list[tuple[Envelope, type[StoreError]]] = [
    (CONFLICT, IdConflict),
    (QUARANTINED, FingerprintQuarantined),
    (OVER_LIMIT, Backpressure),
    (DUPLICATE, DuplicateJob),
]


async def arrange(store: Store, observer: Observer) -> None:
    """One thing of each kind that speaks against an enqueue."""
    await store.producer.enqueue(
        [Envelope(kind="mail", id="known"), Envelope(kind="mail", id="holder", unique_key=b"held")]
    )
    await observer.execute("INSERT INTO headgate_enqueue_policy VALUES ('full', 0)")
    await observer.execute("INSERT INTO headgate_quarantine VALUES ('bad', 'mail', 3, 1)")


async def contents(observer: Observer) -> dict[str, Any]:
    # Only names of ours are put into the text.
    return {
        table: await observer.fetch("SELECT * FROM " + table)  # noqa: S608
        for table in TABLES
    }


@pytest.mark.parametrize(
    ("refused", "error"), REASONS, ids=[error.__name__ for _, error in REASONS]
)
@pytest.mark.parametrize("position", [0, 2])
async def test_nothing_is_written(
    store: Store, observer: Observer, refused: Envelope, error: type[StoreError], position: int
) -> None:
    await arrange(store, observer)
    before = await contents(observer)
    batch = [BLAMELESS, BLAMELESS]
    batch.insert(position, refused)
    with pytest.raises(error):
        await store.producer.enqueue(batch)
    assert await contents(observer) == before


@pytest.mark.parametrize("first", range(len(REASONS)))
async def test_the_first_reason_in_order_is_given(
    store: Store, observer: Observer, first: int
) -> None:
    await arrange(store, observer)
    for later in range(first, len(REASONS)):
        batch = [REASONS[index][0] for index in (later, first) if later != first]
        batch = batch or [REASONS[first][0]]
        with pytest.raises(REASONS[first][1]):
            await store.producer.enqueue(batch)


async def test_the_refusals_say_what_was_met(store: Store, observer: Observer) -> None:
    await arrange(store, observer)
    with pytest.raises(FingerprintQuarantined, match=r"^fingerprint bad is quarantined$"):
        await store.producer.enqueue([QUARANTINED])
    with pytest.raises(DuplicateJob) as duplicate:
        await store.producer.enqueue([DUPLICATE])
    assert (duplicate.value.existing_id, duplicate.value.replaced) == ("holder", False)
    with pytest.raises(Backpressure) as pressure:
        await store.producer.enqueue([OVER_LIMIT, OVER_LIMIT])
    found = pressure.value
    assert (found.queue, found.limit, found.current, found.incoming) == ("full", 0, 0, 2)


@pytest.mark.parametrize(
    ("batch", "error", "text"),
    [
        ([Envelope(kind="")], InvalidRequest, "invalid kind"),
        (
            [Envelope(kind="a", id="x"), Envelope(kind="a", id="x")],
            IdConflict,
            "id conflict: job x",
        ),
        (
            [
                Envelope(kind="a", id="x", unique_key=b"k"),
                Envelope(kind="a", id="y", unique_key=b"k"),
            ],
            DuplicateJob,
            "existing job x",
        ),
        ([Envelope(kind="a")] * 1_001, InvalidRequest, "at most 1000 jobs"),
    ],
)
async def test_what_cannot_enter_is_refused_without_a_database(
    open_store: OpenStore, batch: Sequence[Envelope], error: type[StoreError], text: str
) -> None:
    away = open_store(dsn="postgresql://nobody@127.0.0.1:1/nothing")
    with pytest.raises(error, match=text):
        await away.producer.enqueue(batch)


async def test_one_key_in_two_scopes_is_no_repetition(store: Store) -> None:
    await store.producer.enqueue(
        [
            Envelope(kind="a", unique_key=b"k"),
            Envelope(kind="b", unique_key=b"k"),
            Envelope(kind="b", unique_key=b"k", unique_exclude_kind=True),
        ]
    )
    with pytest.raises(DuplicateJob):
        await store.producer.enqueue(
            [Envelope(kind="c", unique_key=b"k", unique_exclude_kind=True)]
        )
