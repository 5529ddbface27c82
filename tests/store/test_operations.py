"""Operations as they are asked for: what is refused, how much there is to do, how they end."""

import json
import re
from typing import Any

import pytest

from headgate.model.envelope import Envelope
from headgate.model.errors import InvalidRequest, NotFound
from headgate.model.lifecycle import State
from headgate.model.limits import MAX_MS
from headgate.model.operation import JobSelector, Operation
from headgate.queries import bulk
from headgate.store.store import Store
from tests.store.journeys import bring
from tests.store.rows import HOUR_MS, Observer


async def fill(store: Store, count: int, **fields: Any) -> list[str]:
    jobs = await store.producer.enqueue(
        [Envelope(**{"kind": "mail", **fields}) for _ in range(count)]
    )
    return [job.id for job in jobs]


async def estimate(store: Store, action: str, **selector: Any) -> int:
    operation = await store.operations.create(action, JobSelector(**selector), dry_run=True)
    return operation.total_estimated


@pytest.mark.parametrize(
    ("action", "selector", "text"),
    [
        ("archive", JobSelector(), "operator_archive is not in the transition table"),
        ("archive", JobSelector(queue="q"), "operator_archive is not in the transition table"),
        ("cancel", JobSelector(), "empty selector is rejected"),
        ("bogus", JobSelector(), "empty selector is rejected"),
        ("bogus", JobSelector(queue="q"), "unknown action `bogus`"),
        ("promote", JobSelector(queue="q"), "unknown action `promote`"),
        ("delete_queue", JobSelector(queue="q"), "unknown action `delete_queue`"),
        ("cancel", JobSelector(queue="q\0"), "queue must not contain NUL"),
        ("cancel", JobSelector(state="\0"), "state must not contain NUL"),
        ("cancel", JobSelector(kind="a", partition_key="\0"), "partition_key must not contain NUL"),
        ("cancel", JobSelector(older_than_ms=-1), "older_than_ms must be >= 0"),
        ("cancel", JobSelector(older_than_ms=MAX_MS + 1), "older_than_ms is too large"),
    ],
)
async def test_what_no_operation_can_do(
    store: Store, observer: Observer, action: str, selector: JobSelector, text: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await store.operations.create(action, selector)
    assert refused.value.message == text
    assert await observer.fetchval("SELECT count(*) FROM headgate_operation") == 0


async def test_a_new_operation(store: Store, observer: Observer) -> None:
    await fill(store, 3, queue="q")
    operation = await store.operations.create("cancel", JobSelector(queue="q"))
    assert re.fullmatch("hg[0-9a-f]{21}", operation.id)
    assert operation == Operation(
        id=operation.id,
        status="pending",
        affected=0,
        total_estimated=3,
        dry_run=False,
        error=None,
    )
    assert await store.operations.get(operation.id) == operation
    row = await observer.fetchrow("SELECT * FROM headgate_operation")
    assert row is not None
    assert json.loads(row["selector"]) == {"queue": "q"}
    assert (row["action"], row["finished_at_ms"]) == ("cancel", 0)
    assert row["created_at_ms"] > 0


async def test_a_dry_run_is_over_at_once(store: Store, observer: Observer) -> None:
    await fill(store, 2, queue="q")
    operation = await store.operations.create("delete", JobSelector(queue="q"), dry_run=True)
    assert (operation.status, operation.dry_run, operation.total_estimated) == (
        "completed",
        True,
        2,
    )
    assert await store.operations.run_pending(100) == 0
    assert await observer.fetchval("SELECT count(*) FROM headgate_job") == 2
    assert await observer.fetchval("SELECT finished_at_ms FROM headgate_operation") > 0


async def test_there_are_only_the_operations_that_there_are(store: Store) -> None:
    for operation_id in ("nobody", "", "\0"):
        assert await store.operations.get(operation_id) is None


class TestEstimate:
    """What an operation says that it has before it."""

    @pytest.mark.parametrize("action", ["retry", "cancel", "delete"])
    @pytest.mark.parametrize("by", ["queue", "kind"])
    async def test_the_states_are_those_of_the_action(
        self, store: Store, observer: Observer, action: str, by: str
    ) -> None:
        for state in State:
            await bring(store, observer, Envelope(kind="k", queue="q"), state)
            await bring(store, observer, Envelope(kind="other", queue="other"), state)
        name = "q" if by == "queue" else "k"
        reached = {"retry": 1, "cancel": 5, "delete": 9}[action]
        assert await estimate(store, action, **{by: name}) == reached
        assert await estimate(store, action, **{by: name}, state="archived") == (
            0 if action == "cancel" else 1
        )
        assert await estimate(store, action, **{by: name}, state="cancelled") == (
            0 if action == "cancel" else 1
        )
        assert await estimate(store, action, **{by: name}, state="bogus") == 0
        assert await estimate(store, action, **{by: name}, state="") == 0

    @pytest.mark.parametrize("folded", [False, True])
    async def test_of_a_queue_or_a_state_it_is_exact(
        self, store: Store, monkeypatch: pytest.MonkeyPatch, folded: bool
    ) -> None:
        await fill(store, 30, queue="a")
        await fill(store, 12, queue="b")
        if folded:
            await store.upkeep.fold_ledger(1_000)
            await fill(store, 1, queue="b")
        of_b = 13 if folded else 12
        assert await estimate(store, "cancel", queue="a") == 30
        assert await estimate(store, "cancel", queue="b", state="available") == of_b
        assert await estimate(store, "cancel", state="available") == 30 + of_b
        assert await estimate(store, "cancel", queue="") == 0

    async def test_everything_else_is_looked_for_within_a_bound(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bulk, "ESTIMATE", 10)
        bulk.estimate.cache_clear()
        try:
            await fill(store, 8, kind="a", partition_key="p")
            await fill(store, 30, kind="b", partition_key="p")
            await fill(store, 30, kind="c", partition_key="q", pending=True)
            assert await estimate(store, "cancel", kind="a") == 8
            assert await estimate(store, "cancel", kind="b") == 10
            # Thirty pending ones come first.
            assert await estimate(store, "cancel", partition_key="p") == 0
            assert await estimate(store, "cancel", partition_key="p", state="available") == 10
        finally:
            bulk.estimate.cache_clear()

    async def test_every_condition_counts(self, store: Store, observer: Observer) -> None:
        await fill(store, 1, kind="a", queue="q", partition_key="p")
        await fill(store, 2, kind="a", queue="q")
        await fill(store, 4, kind="a", queue="r", partition_key="p")
        await fill(store, 8, kind="b", queue="q", partition_key="p")
        assert await estimate(store, "cancel", kind="a", queue="q", partition_key="p") == 1
        assert await estimate(store, "cancel", kind="a", queue="q", partition_key="") == 2
        assert await estimate(store, "cancel", kind="a", queue="q") == 3
        assert await estimate(store, "cancel", queue="q", partition_key="p") == 9
        assert await estimate(store, "cancel", partition_key="p") == 13
        assert await estimate(store, "cancel", older_than_ms=0, kind="b") == 8
        assert await estimate(store, "cancel", older_than_ms=HOUR_MS) == 0
        await observer.execute(
            "UPDATE headgate_job SET enqueued_at_ms = enqueued_at_ms - $1 WHERE kind = 'b'",
            2 * HOUR_MS,
        )
        assert await estimate(store, "cancel", older_than_ms=HOUR_MS) == 8
        assert await estimate(store, "cancel", older_than_ms=HOUR_MS, queue="r") == 0


class TestCancel:
    """Ending an operation before its time."""

    async def test_it_stops_where_it_is(self, store: Store, observer: Observer) -> None:
        await fill(store, 30, queue="q")
        operation = await store.operations.create("delete", JobSelector(queue="q"))
        assert await store.operations.run_pending(10) == 1
        cancelled = await store.operations.cancel(operation.id)
        assert (cancelled.status, cancelled.affected, cancelled.error) == ("cancelled", 10, None)
        assert await store.operations.get(operation.id) == cancelled
        assert await store.operations.run_pending(10) == 0
        assert await observer.fetchval("SELECT count(*) FROM headgate_job") == 20
        assert await observer.fetchval("SELECT finished_at_ms FROM headgate_operation") > 0

    async def test_what_is_over_is_over(self, store: Store) -> None:
        selector = JobSelector(queue="q")
        dry = await store.operations.create("delete", selector, dry_run=True)
        with pytest.raises(InvalidRequest) as refused:
            await store.operations.cancel(dry.id)
        assert refused.value.message == f"operation {dry.id} is already completed"
        operation = await store.operations.create("delete", selector)
        await store.operations.cancel(operation.id)
        with pytest.raises(InvalidRequest) as refused:
            await store.operations.cancel(operation.id)
        assert refused.value.message == f"operation {operation.id} is already cancelled"

    async def test_an_unknown_one(self, store: Store) -> None:
        with pytest.raises(NotFound) as missing:
            await store.operations.cancel("nobody")
        assert missing.value.message == "operation nobody"
        with pytest.raises(InvalidRequest, match="id must not contain NUL"):
            await store.operations.cancel("\0")
