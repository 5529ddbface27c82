"""What a handler leaves with its job while it runs, and how others read it.

Writing takes the lease: without it no row matches and none comes back. None of these columns is in
an index, so a write stays on the page of its row.
"""

from functools import cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Executable,
    Integer,
    LargeBinary,
    Select,
    Text,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB

from headgate.queries.clock import now_ms
from headgate.queries.literals import word
from headgate.queries.states import is_state
from headgate.tables import job

_JOB_ID: Final[Any] = bindparam("job_id", type_=Text)
_PROGRESS: Final = (
    job.c.progress_current,
    job.c.progress_total,
    job.c.progress_message,
    job.c.progress_fence,
    job.c.progress_updated_at_ms,
)


def _held() -> tuple[ColumnElement[bool], ...]:
    """The job runs under the lease (job_id, lease_id, fence)."""
    return (
        job.c.ulid == _JOB_ID,
        job.c.lease_id == bindparam("held_lease_id", type_=Text),
        job.c.fence == bindparam("held_fence", type_=BigInteger),
        is_state(job.c.state, "running"),
    )


@cache
def write_checkpoint() -> Executable:
    """Writes the steps down as `new_checkpoint`; a row comes back when the lease was held.

    The crashes that the store counts per step stay as they are.
    """
    crashes = case(
        (
            job.c.checkpoint.has_key(word("crashes")),
            func.jsonb_build_object(word("crashes"), job.c.checkpoint["crashes"]),
        ),
        else_=literal_column("'{}'::jsonb"),
    )
    steps = cast(bindparam("new_checkpoint", type_=Text), JSONB)
    return (
        update(job)
        .where(*_held())
        .values(
            checkpoint=steps.op("||")(crashes),
            cp_cursor=bindparam("new_cursor", type_=LargeBinary),
        )
        .returning(job.c.fence)
    )


@cache
def write_output() -> Executable:
    """Publishes an output; a row (fence, updated_at_ms) when the lease was held."""
    return (
        update(job)
        .where(*_held())
        .values(
            output_schema_version=bindparam("new_schema_version", type_=Integer),
            output_bytes=bindparam("new_bytes", type_=LargeBinary),
            output_fence=job.c.fence,
            output_updated_at_ms=now_ms(),
        )
        .returning(job.c.output_fence, job.c.output_updated_at_ms)
    )


@cache
def write_progress() -> Executable:
    """Reports progress; a row (fence, updated_at_ms) when the lease was held."""
    return (
        update(job)
        .where(*_held())
        .values(
            progress_current=bindparam("new_current", type_=BigInteger),
            progress_total=bindparam("new_total", type_=BigInteger),
            progress_message=bindparam("new_message", type_=Text),
            progress_fence=job.c.fence,
            progress_updated_at_ms=now_ms(),
        )
        .returning(job.c.progress_fence, job.c.progress_updated_at_ms)
    )


def _of_job(*columns: Any) -> Select[Any]:
    return select(*columns).where(job.c.ulid == _JOB_ID)


@cache
def read_checkpoint() -> Select[Any]:
    """A row (checkpoint, cursor) when there is such a job."""
    return _of_job(cast(job.c.checkpoint, Text).label("checkpoint"), job.c.cp_cursor)


@cache
def read_result() -> Select[Any]:
    """A row (schema_version, bytes) when the job has a result."""
    columns = (job.c.result_schema_version, job.c.result_bytes)
    return _of_job(*columns).where(job.c.result_bytes.is_not(None))


@cache
def read_output() -> Select[Any]:
    """The fields of `Output` in their order, when the job has one."""
    return _of_job(
        job.c.output_schema_version,
        job.c.output_bytes,
        job.c.output_fence,
        job.c.output_updated_at_ms,
    ).where(job.c.output_bytes.is_not(None))


@cache
def read_progress() -> Select[Any]:
    """The fields of `Progress` in their order, when the job has reported some."""
    return _of_job(*_PROGRESS).where(job.c.progress_total.is_not(None))


@cache
def read_kept() -> Select[Any]:
    """The fields of `Progress`, and the sizes of result and output, when there is such a job."""
    sizes = (func.octet_length(job.c.result_bytes), func.octet_length(job.c.output_bytes))
    return _of_job(*_PROGRESS, *sizes)
