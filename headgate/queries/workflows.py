"""Workflows: a coordinator with its plan and record, and the jobs of its nodes."""

from functools import cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Select,
    Text,
    Update,
    bindparam,
    cast,
    column,
    func,
    select,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from headgate.queries.literals import number
from headgate.tables import job

_COORDINATOR_ID: Final[Any] = bindparam("coordinator_job_id", type_=Text)


@cache
def read_coordinator() -> Select[Any]:
    """The job `coordinator_job_id` with what makes it a coordinator: kind, plan and record."""
    return select(
        job.c.id.label("row_id"),
        job.c.ulid.label("job_id"),
        job.c.kind,
        job.c.payload,
        cast(job.c.checkpoint, Text).label("checkpoint"),
        cast(job.c.state, Text).label("state"),
        job.c.enqueued_at_ms,
        job.c.scheduled_at_ms,
        job.c.finalized_at_ms,
    ).where(job.c.ulid == _COORDINATOR_ID)


@cache
def node_jobs() -> Select[Any]:
    """Those of the jobs `job_id_array` that exist; a look into the index of ids for each."""
    wanted = (
        func.unnest(bindparam("job_id_array", type_=ARRAY(Text)))
        .table_valued(column("job_id", Text))
        .render_derived(name="wanted")
    )
    # The limit keeps it a look per id, whatever the statistics say.
    found = (
        select(
            job.c.kind,
            cast(job.c.state, Text).label("state"),
            job.c.attempt,
            job.c.claimed_at_ms,
            job.c.finalized_at_ms,
        )
        .where(job.c.ulid == wanted.c.job_id)
        .limit(number(1))
        .lateral("found")
    )
    return select(wanted.c.job_id, *found.c).select_from(wanted.join(found, true()))


@cache
def remember() -> Update:
    """Puts the fields of `record` into the checkpoint of the coordinator `coordinator_row_id`."""
    record = cast(bindparam("record", type_=Text), JSONB)
    return (
        update(job)
        .where(job.c.id == bindparam("coordinator_row_id", type_=BigInteger))
        .values(checkpoint=job.c.checkpoint.op("||")(record))
        .returning(job.c.id)
    )
