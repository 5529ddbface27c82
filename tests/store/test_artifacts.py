"""Checkpoints, output and progress: written under the lease alone, read as they were written."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import msgspec
import pytest

from headgate.model.artifacts import Checkpoint, Output, Progress, Steps
from headgate.model.envelope import Envelope
from headgate.model.errors import InvalidRequest, LeaseRejected
from headgate.model.job import Acknowledgement, Lease, Stored
from headgate.model.lifecycle import Outcome
from headgate.store.artifacts import Artifacts
from headgate.store.store import Store
from tests.store.races import overtaken
from tests.store.rows import HOUR_MS, Observer, job_row, now_ms, start
from tests.worker.waiting import eventually

Write = Callable[[Artifacts, Lease], Awaitable[Any]]

WRITES: dict[str, Write] = {
    "checkpoint": lambda artifacts, lease: artifacts.write_checkpoint(
        lease, Steps(completed_steps=["a"], cursor=b"c")
    ),
    "output": lambda artifacts, lease: artifacts.write_output(lease, 1, b"data"),
    "progress": lambda artifacts, lease: artifacts.write_progress(lease, 1, 2, "half"),
}

MAX = 9_007_199_254_740_991
MIB = 1_048_576


@pytest.fixture
async def lease(store: Store, observer: Observer) -> Lease:
    [job] = await store.producer.enqueue([Envelope(kind="mail", retention_ms=HOUR_MS)])
    [held] = await start(observer, [job.id])
    return held


async def row_of(observer: Observer, lease: Lease) -> dict[str, Any]:
    row = await job_row(observer, lease.job_id)
    assert row is not None
    return row


class TestLease:
    """The right to write is the lease, whole."""

    @pytest.mark.parametrize("write", WRITES)
    @pytest.mark.parametrize(
        "change",
        [{"fence": 0}, {"fence": 100}, {"lease_id": "other"}, {"lease_id": ""}, {"job_id": "no"}],
        ids=str,
    )
    async def test_another_one_is_refused(
        self, store: Store, observer: Observer, lease: Lease, write: str, change: dict[str, Any]
    ) -> None:
        before = await row_of(observer, lease)
        wrong = msgspec.structs.replace(lease, **change)
        with pytest.raises(LeaseRejected) as rejected:
            await WRITES[write](store.artifacts, wrong)
        assert rejected.value.job_id == wrong.job_id
        assert await row_of(observer, lease) == before
        await WRITES[write](store.artifacts, lease)

    @pytest.mark.parametrize("write", WRITES)
    @pytest.mark.parametrize("end", ["cancelled", "acknowledged", "crashed", "admitted again"])
    async def test_one_that_is_over_is_refused(
        self, store: Store, observer: Observer, lease: Lease, write: str, end: str
    ) -> None:
        if end == "cancelled":
            await store.control.cancel(lease.job_id)
        elif end == "acknowledged":
            await store.leases.acknowledge([Acknowledgement(lease=lease, outcome=Outcome.SUCCESS)])
        elif end == "crashed":
            await observer.execute("UPDATE headgate_job SET lease_expires_at_ms = 1")
            await store.upkeep.reclaim_expired(10)
        else:
            await store.control.cancel(lease.job_id)
            await store.control.retry(lease.job_id)
            await start(observer, [lease.job_id], lease_id=lease.lease_id)
        before = await row_of(observer, lease)
        with pytest.raises(LeaseRejected):
            await WRITES[write](store.artifacts, lease)
        assert await row_of(observer, lease) == before

    @pytest.mark.parametrize("write", WRITES)
    async def test_one_that_ends_while_it_writes_is_refused(
        self, store: Store, observer: Observer, lease: Lease, write: str, headgate_database: str
    ) -> None:
        writing = WRITES[write](store.artifacts, lease)
        answer = await overtaken(observer, headgate_database, writing, lease.job_id, "cancelled")
        assert isinstance(answer, LeaseRejected)

    @pytest.mark.parametrize("write", WRITES)
    async def test_an_expired_one_holds_until_it_is_taken_back(
        self, store: Store, observer: Observer, lease: Lease, write: str
    ) -> None:
        await observer.execute("UPDATE headgate_job SET lease_expires_at_ms = 1")
        await WRITES[write](store.artifacts, lease)


class TestOutput:
    async def test_it_is_stamped_and_replaced(
        self, store: Store, observer: Observer, lease: Lease
    ) -> None:
        assert await store.artifacts.output(lease.job_id) is None
        for version, data in ((1, b"\x00\xff"), (2**31 - 1, b"")):
            began = await now_ms(observer)
            stamp = await store.artifacts.write_output(lease, version, data)
            assert stamp.fence == lease.fence
            assert began <= stamp.updated_at_ms <= await now_ms(observer)
            assert await store.artifacts.output(lease.job_id) == Output(
                schema_version=version,
                bytes=data,
                fence=stamp.fence,
                updated_at_ms=stamp.updated_at_ms,
            )

    @pytest.mark.parametrize(
        ("version", "size", "text"),
        [
            (0, 0, "output schema_version must be greater than zero"),
            (-1, 0, "output schema_version must be greater than zero"),
            (2**31, 0, "output schema_version exceeds the portable signed-integer limit"),
            (1, 32 * MIB + 1, "output bytes exceed the 32 MiB limit"),
        ],
    )
    async def test_bounds(
        self, store: Store, lease: Lease, version: int, size: int, text: str
    ) -> None:
        with pytest.raises(InvalidRequest) as refused:
            await store.artifacts.write_output(lease, version, bytes(size))
        assert refused.value.message == text

    async def test_it_survives_a_failure(
        self, store: Store, observer: Observer, lease: Lease
    ) -> None:
        await store.artifacts.write_output(lease, 1, b"half")
        await store.artifacts.write_progress(lease, 1, 2)
        await store.leases.acknowledge([Acknowledgement(lease=lease, outcome=Outcome.RETRY)])
        output = await store.artifacts.output(lease.job_id)
        assert output is not None
        assert (output.bytes, output.fence) == (b"half", lease.fence)
        assert await store.artifacts.progress(lease.job_id) is not None


class TestProgress:
    async def test_it_is_stamped_and_replaced(
        self, store: Store, observer: Observer, lease: Lease
    ) -> None:
        assert await store.artifacts.progress(lease.job_id) is None
        for current, total, message in ((42, 100, "on"), (0, 1, None), (MAX, MAX, "é" * 256)):
            stamp = await store.artifacts.write_progress(lease, current, total, message)
            assert stamp.fence == lease.fence
            assert await store.artifacts.progress(lease.job_id) == Progress(
                current=current,
                total=total,
                message=message,
                fence=stamp.fence,
                updated_at_ms=stamp.updated_at_ms,
            )

    @pytest.mark.parametrize(
        ("current", "total", "message", "text"),
        [
            (0, 0, None, "progress total must be greater than zero"),
            (0, -1, None, "progress total must be greater than zero"),
            (-1, 1, None, "progress current must be >= 0"),
            (3, 2, None, "progress current must not exceed total"),
            (0, MAX + 1, None, "progress total exceeds the portable JSON safe-integer limit"),
            (1, 2, "é" * 257, "progress message exceeds the 512-byte limit"),
            (1, 2, "a\0b", "progress message must not contain NUL"),
            (1, 2, "\ud800", "progress message must not contain lone surrogates"),
        ],
    )
    async def test_bounds(
        self, store: Store, lease: Lease, current: int, total: int, message: str | None, text: str
    ) -> None:
        with pytest.raises(InvalidRequest) as refused:
            await store.artifacts.write_progress(lease, current, total, message)
        assert refused.value.message == text


class TestCheckpoint:
    async def test_a_job_without_one(self, store: Store, lease: Lease) -> None:
        assert await store.artifacts.checkpoint(lease.job_id) == Checkpoint()
        assert await store.artifacts.checkpoint("nobody") is None

    async def test_it_reads_as_it_was_written(
        self, store: Store, observer: Observer, lease: Lease
    ) -> None:
        await store.artifacts.write_checkpoint(
            lease,
            Steps(
                completed_steps=["load", "send é"],
                in_progress_step="mark",
                cursor_step="mark",
                cursor=b"\x00\xff",
                schema_version=3,
                step_set_hash="abc",
            ),
        )
        assert await store.artifacts.checkpoint(lease.job_id) == Checkpoint(
            last_completed_step="send é",
            completed_steps=["load", "send é"],
            in_progress_step="mark",
            cursor_step="mark",
            cursor=b"\x00\xff",
            schema_version=3,
            step_set_hash="abc",
        )
        row = await row_of(observer, lease)
        assert json.loads(row["checkpoint"]) == {
            "completed": ["load", "send é"],
            "in_progress": "mark",
            "cursor_step": "mark",
            "version": 3,
            "hash": "abc",
        }

    async def test_what_is_not_said_again_is_gone(
        self, store: Store, observer: Observer, lease: Lease
    ) -> None:
        await store.artifacts.write_checkpoint(
            lease, Steps(completed_steps=["a"], in_progress_step="b", cursor=b"c")
        )
        await store.artifacts.write_checkpoint(lease, Steps())
        assert await store.artifacts.checkpoint(lease.job_id) == Checkpoint()
        assert json.loads((await row_of(observer, lease))["checkpoint"]) == {}

    async def test_crashes_stay_counted(
        self, store: Store, observer: Observer, lease: Lease
    ) -> None:
        await store.artifacts.write_checkpoint(lease, Steps(in_progress_step="mark"))
        await observer.execute("UPDATE headgate_job SET lease_expires_at_ms = 1")
        await store.upkeep.reclaim_expired(10)
        await observer.execute("UPDATE headgate_job SET scheduled_at_ms = 1")
        await store.upkeep.promote_due(10)
        [again] = await start(observer, [lease.job_id])
        await store.artifacts.write_checkpoint(again, Steps(completed_steps=["mark"]))
        checkpoint = await store.artifacts.checkpoint(lease.job_id)
        assert checkpoint is not None
        assert checkpoint.crashes_by_step == {"mark": 1}
        assert checkpoint.completed_steps == ["mark"]

    @pytest.mark.parametrize(
        ("steps", "text"),
        [
            (Steps(completed_steps=["a\0"]), "step name must not contain NUL"),
            (Steps(in_progress_step="\0"), "step name must not contain NUL"),
            (Steps(cursor_step="\ud800"), "step name must not contain lone surrogates"),
            (Steps(step_set_hash="\0"), "step_set_hash must not contain NUL"),
            (
                Steps(schema_version=2**31),
                "checkpoint schema_version exceeds the portable signed-integer limit",
            ),
            (Steps(cursor=bytes(32 * MIB + 1)), "checkpoint cursor bytes exceed the 32 MiB limit"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    async def test_bounds(self, store: Store, lease: Lease, steps: Steps, text: str) -> None:
        with pytest.raises(InvalidRequest) as refused:
            await store.artifacts.write_checkpoint(lease, steps)
        assert refused.value.message == text


async def test_a_result_comes_with_success_alone(store: Store, lease: Lease) -> None:
    assert await store.artifacts.result(lease.job_id) is None
    result = Stored(schema_version=3, bytes=b"\x00\xff")
    report = Acknowledgement(lease=lease, outcome=Outcome.SUCCESS, result=result)
    await store.leases.acknowledge([report])
    assert await store.artifacts.result(lease.job_id) == result


@pytest.mark.parametrize("job_id", ["nobody", "", "a\0", "\ud800"])
async def test_an_unknown_job_has_nothing(store: Store, job_id: str) -> None:
    artifacts = store.artifacts
    for read in (artifacts.result, artifacts.output, artifacts.progress, artifacts.checkpoint):
        assert await read(job_id) is None


async def test_everything_goes_with_the_job(store: Store, observer: Observer, lease: Lease) -> None:
    for write in WRITES.values():
        await write(store.artifacts, lease)
    await store.control.cancel(lease.job_id)
    await store.control.delete(lease.job_id)
    assert await store.artifacts.output(lease.job_id) is None
    assert await store.artifacts.checkpoint(lease.job_id) is None


@pytest.mark.parametrize("write", WRITES)
async def test_a_write_stays_on_its_page(
    store: Store, observer: Observer, lease: Lease, write: str
) -> None:
    async def updates() -> tuple[int, int]:
        row = await observer.fetchrow(
            "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables"
            " WHERE relname = 'headgate_job'"
        )
        assert row is not None
        return row["n_tup_upd"], row["n_tup_hot_upd"]

    before = (await updates())[0]
    for _ in range(20):
        await WRITES[write](store.artifacts, lease)
    # Sessions report what they did when they end, or after a while.
    await store.close()

    async def reported() -> bool:
        return (await updates())[0] >= before + 20

    await eventually(reported)
    total, hot = await updates()
    assert hot >= total - 4


RESULT = {"result_bytes": b"", "result_schema_version": 1}
OUTPUT = {
    "output_bytes": b"",
    "output_schema_version": 1,
    "output_fence": 1,
    "output_updated_at_ms": 1,
}
PROGRESS = {
    "progress_current": 0,
    "progress_total": 1,
    "progress_fence": 1,
    "progress_updated_at_ms": 1,
}


async def test_no_row_holds_half_of_one(store: Store, observer: Observer) -> None:
    await store.producer.enqueue([Envelope(kind="mail")])
    names = [*RESULT, *OUTPUT, *PROGRESS, "progress_message"]
    places = ", ".join(f"{name} = ${place}" for place, name in enumerate(names, 1))
    # Only names of ours are put into the text.
    write = await observer.prepare(f"UPDATE headgate_job SET {places}")  # noqa: S608

    async def stands(row: dict[str, Any]) -> bool:
        try:
            await write.fetch(*(row.get(name) for name in names))
        except asyncpg.CheckViolationError:
            return False
        return True

    said = PROGRESS | {"progress_message": "é" * 256}
    for whole in ({}, RESULT, OUTPUT, PROGRESS, said, RESULT | OUTPUT | said):
        assert await stands(whole), whole
        for name in whole.keys() - {"progress_message"}:
            assert not await stands(whole | {name: None}), name
            if isinstance(whole[name], int):
                assert not await stands(whole | {name: -1}), name
    for wrong in (
        {"progress_message": "alone"},
        PROGRESS | {"progress_current": 2},
        PROGRESS | {"progress_total": 2**53},
        PROGRESS | {"progress_message": "é" * 257},
        OUTPUT | {"output_fence": 0},
    ):
        assert not await stands(wrong), wrong
