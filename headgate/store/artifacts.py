"""What a handler leaves with its job while it runs: written under its lease, read by anyone."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from sqlalchemy import Executable

from headgate.model.artifacts import (
    Checkpoint,
    Kept,
    Output,
    Progress,
    Stamp,
    Steps,
    judge_output,
    judge_progress,
    judge_steps,
)
from headgate.model.errors import LeaseRejected
from headgate.model.job import Claim, Lease, Stored
from headgate.model.limits import is_storable
from headgate.queries.artifacts import (
    read_checkpoint,
    read_kept,
    read_output,
    read_progress,
    read_result,
    write_checkpoint,
    write_output,
    write_progress,
)
from headgate.store.database import Executor, Row


class _StoredSteps(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A checkpoint as the row keeps it; what says nothing is left out."""

    completed: list[str] = []
    in_progress: str | None = None
    cursor_step: str | None = None
    version: int = 0
    hash: str = ""
    crashes: dict[str, int] = {}


_encode: Final = msgspec.json.Encoder().encode
_decode_steps: Final = msgspec.json.Decoder(_StoredSteps).decode


def _progress(fields: Iterable[Any]) -> Progress:
    return Progress(**dict(zip(Progress.__struct_fields__, fields, strict=True)))


class Artifacts:
    """Checkpoints, output and progress of running attempts, and results of finished ones.

    Writing raises `LeaseRejected` when the lease is no longer held, and nothing was written then:
    the work must stop. All methods raise `StoreUnavailable`.
    """

    def __init__(self, database: Executor, *, reads: Executor) -> None:
        self._database = database
        self._reads = reads

    async def write_checkpoint(self, lease: Lease, steps: Steps) -> None:
        """Writes down where the attempt stands, in place of what was written before.

        To be called before the work that it announces. Raises `InvalidRequest`.
        """
        statement, parameters = checkpoint_statement(lease, steps)
        if not await self._database.fetch(statement, parameters):
            raise LeaseRejected(lease.job_id)

    async def write_output(self, lease: Lease, schema_version: int, data: bytes) -> Stamp:
        """Publishes an output while the attempt runs; it replaces the one before and survives a
        failure. Raises `InvalidRequest`.
        """
        judge_output(schema_version, data)
        row = await self._write(
            lease, write_output(), {"new_schema_version": schema_version, "new_bytes": data}
        )
        return Stamp(*row)

    async def write_progress(
        self, lease: Lease, current: int, total: int, message: str | None = None
    ) -> Stamp:
        """Says how far the attempt has come. Raises `InvalidRequest`."""
        judge_progress(current, total, message)
        row = await self._write(
            lease,
            write_progress(),
            {"new_current": current, "new_total": total, "new_message": message},
        )
        return Stamp(*row)

    async def result(self, job_id: str) -> Stored | None:
        """What the attempt that succeeded published; None without one, or without such a job."""
        row = await self._read(read_result(), job_id)
        return None if row is None else Stored(*row)

    async def output(self, job_id: str) -> Output | None:
        """The newest output; None without one, or without such a job."""
        row = await self._read(read_output(), job_id)
        if row is None:
            return None
        return Output(**dict(zip(Output.__struct_fields__, row, strict=True)))

    async def progress(self, job_id: str) -> Progress | None:
        """The newest report of progress; None without one, or without such a job."""
        row = await self._read(read_progress(), job_id)
        return None if row is None else _progress(row)

    async def kept(self, job_id: str) -> Kept | None:
        """What there is of all these, without their bytes; None when there is no such job."""
        row = await self._read(read_kept(), job_id)
        if row is None:
            return None
        *progress, result_bytes, output_bytes = row
        return Kept(
            result_bytes=result_bytes,
            output_bytes=output_bytes,
            progress=None if row["progress_total"] is None else _progress(progress),
        )

    async def checkpoint(self, job_id: str) -> Checkpoint | None:
        """The steps of the job, all empty when it has none; None when there is no such job."""
        row = await self._read(read_checkpoint(), job_id)
        if row is None:
            return None
        stored = _decode_steps(row["checkpoint"])
        return Checkpoint(
            completed_steps=stored.completed,
            last_completed_step=stored.completed[-1] if stored.completed else None,
            in_progress_step=stored.in_progress,
            cursor_step=stored.cursor_step,
            cursor=row["cp_cursor"],
            schema_version=stored.version,
            step_set_hash=stored.hash,
            crashes_by_step=stored.crashes,
        )

    async def _write(self, lease: Lease, statement: Executable, values: Mapping[str, Any]) -> Row:
        rows = await self._database.fetch(statement, {**_held(lease), **values})
        if not rows:
            raise LeaseRejected(lease.job_id)
        return rows[0]

    async def _read(self, statement: Executable, job_id: str) -> Row | None:
        if not is_storable(job_id):
            return None
        rows = await self._reads.fetch(statement, {"job_id": job_id})
        return rows[0] if rows else None


def checkpoint_statement(lease: Lease, steps: Steps) -> tuple[Executable, dict[str, Any]]:
    """What writes the steps down, with its parameters; no row comes back without the lease.

    Raises `InvalidRequest`.
    """
    judge_steps(steps)
    stored = _StoredSteps(
        completed=steps.completed_steps,
        in_progress=steps.in_progress_step,
        cursor_step=steps.cursor_step,
        version=steps.schema_version,
        hash=steps.step_set_hash,
    )
    return write_checkpoint(), {
        **_held(lease),
        "new_checkpoint": _encode(stored).decode(),
        "new_cursor": steps.cursor,
    }


def claimed_steps(claim: Claim) -> Steps:
    """The steps that the attempts before this one came to."""
    stored = msgspec.convert(claim.checkpoint, _StoredSteps)
    return Steps(
        cursor=claim.checkpoint_cursor,
        completed_steps=stored.completed,
        in_progress_step=stored.in_progress,
        cursor_step=stored.cursor_step,
        schema_version=stored.version,
        step_set_hash=stored.hash,
    )


def _held(lease: Lease) -> dict[str, Any]:
    return {
        "job_id": lease.job_id,
        "held_lease_id": lease.lease_id,
        "held_fence": lease.fence,
    }
