"""What is read of a job, and one job by its id."""

from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Executable, Text, bindparam, cast, func, select
from sqlalchemy.dialects.postgresql import aggregate_order_by

from headgate.model.workflow import WORKFLOW_HEADER
from headgate.queries.literals import word
from headgate.tables import job, job_tag


def job_columns(source: Any, *, payload: bool = False) -> list[ColumnElement[Any]]:
    """What is shown of a job, `id` being the public one and `row_id` that of its row."""
    tags = (
        select(func.array_agg(aggregate_order_by(job_tag.c.tag, job_tag.c.tag)))
        .where(job_tag.c.job_id == source.c.id)
        .scalar_subquery()
    )
    names = (
        "kind",
        "queue",
        "schema_version",
        "priority",
        "attempt",
        "crash_attempt",
        "max_attempts",
        "partition_key",
        "rate_class",
        "sticky_worker",
        "weight",
        "fingerprint",
        "enqueued_at_ms",
        "scheduled_at_ms",
        "claimed_at_ms",
        "finalized_at_ms",
        "periodic_schedule_id",
        "periodic_tick_ms",
    )
    columns = [
        source.c.id.label("row_id"),
        source.c.ulid.label("id"),
        cast(source.c.state, Text).label("state"),
        cast(source.c.errors, Text).label("errors"),
        tags.label("tags"),
        *(source.c[name] for name in names),
    ]
    if payload:
        columns += [source.c.payload, cast(source.c.headers, Text).label("headers")]
    return columns


@cache
def one_job(*, payload: bool) -> Executable:
    """The job `job_id`, by its public id, and the one that coordinates it in a workflow."""
    coordinator = job.c.headers[WORKFLOW_HEADER].astext.label("coordinator")
    return select(*job_columns(job, payload=payload), coordinator).where(
        job.c.ulid == bindparam("job_id", type_=Text)
    )


@cache
def probe() -> Executable:
    """A point read that proves that the store answers and its tables are there."""
    return select(job.c.id).where(job.c.ulid == word("__readyz__"))
