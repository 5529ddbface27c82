"""The parts of the schema that tables cannot say: triggers, and the archive's last resort.

Every change of `headgate_job` leaves its effect on the counts behind: one trigger per kind of
statement, over transition tables: a batch of a thousand jobs of one queue
and partition appends one row, and a renewal, which changes no count, appends none. Rows are only
ever appended here, so producers, gates and acknowledgements never wait for each other's counts.
An insert is an arrival as well, whatever the state of the new job.

Result, output and progress of a job are whole or absent. PostgreSQL reads the expressions of all
checks anew for each statement that writes jobs, however few it writes, and that took a fifth of a
small one: so the check itself only asks whether there is anything, and a function knows the rest.

A lane that a transaction announces is registered as it commits. Registered any earlier, its entry
would be there for nobody and in the way of every other producer of the lane until then. All lanes
of the transaction go in at once, in the order of their key, so that two commits never deadlock.
"""

from typing import Any

from sqlalchemy import MetaData, Table, event
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import ExecutableDDLElement

from headgate.tables import (
    active_partition,
    inflight,
    job,
    job_archive,
    ledger,
    metadata,
    new_lane,
    partition_count,
    queue_count,
)

_MINUTE = "((extract(epoch from clock_timestamp()) * 1000)::bigint / 60000) * 60000"

_BODIES = {
    "insert": (
        "INSERT INTO {ledger} (queue, partition_key, state, n, arrived, bucket_ms)"
        f" SELECT queue, partition_key, state, count(*), count(*), {_MINUTE}"
        " FROM fresh GROUP BY queue, partition_key, state;"
    ),
    "delete": (
        "INSERT INTO {ledger} (queue, partition_key, state, n, bucket_ms)"
        f" SELECT queue, partition_key, state, -count(*), {_MINUTE}"
        " FROM gone GROUP BY queue, partition_key, state;"
    ),
    "update": (
        "INSERT INTO {ledger} (queue, partition_key, state, n, bucket_ms)"
        f" SELECT queue, partition_key, state, sum(change), {_MINUTE} FROM ("
        "SELECT queue, partition_key, state, 1 AS change FROM fresh"
        " UNION ALL SELECT queue, partition_key, state, -1 FROM gone"
        ") AS changes GROUP BY queue, partition_key, state HAVING sum(change) <> 0;"
    ),
    "truncate": ("DELETE FROM {ledger}; DELETE FROM {queue_count}; DELETE FROM {partition_count};"),
}

_TRANSITIONS = {
    "insert": " REFERENCING NEW TABLE AS fresh",
    "delete": " REFERENCING OLD TABLE AS gone",
    "update": " REFERENCING OLD TABLE AS gone NEW TABLE AS fresh",
    "truncate": "",
}


_REGISTER_LANES = (
    "WITH announced AS (DELETE FROM {new_lane} RETURNING {lane}),"
    " added AS (INSERT INTO {registry} ({lane})"
    " SELECT DISTINCT {lane} FROM announced ORDER BY {lane}"
    " ON CONFLICT ({lane}) DO UPDATE SET registered = excluded.registered"
    " RETURNING queue, partition_key)"
    " INSERT INTO {inflight} (queue, partition_key) SELECT DISTINCT queue, partition_key FROM added"
    " ORDER BY queue, partition_key ON CONFLICT DO NOTHING;"
)

_ARTIFACTS_FUNCTION = "headgate_artifacts_whole"
_ARTIFACTS = [
    column for column in job.columns if column.name.startswith(("result_", "output_", "progress_"))
]
_ARTIFACTS_WHOLE = (
    "CASE WHEN result_bytes IS NULL THEN result_schema_version IS NULL"
    " ELSE coalesce(result_schema_version > 0, false) END"
    " AND CASE WHEN output_bytes IS NULL THEN output_schema_version IS NULL"
    " AND output_fence IS NULL AND output_updated_at_ms IS NULL"
    " ELSE coalesce(output_schema_version > 0 AND output_fence > 0"
    " AND output_updated_at_ms > 0, false) END"
    " AND CASE WHEN progress_current IS NULL THEN progress_total IS NULL"
    " AND progress_message IS NULL AND progress_fence IS NULL AND progress_updated_at_ms IS NULL"
    " ELSE coalesce(progress_current BETWEEN 0 AND progress_total"
    " AND progress_total BETWEEN 1 AND 9007199254740991"
    " AND (progress_message IS NULL OR octet_length(progress_message) <= 512)"
    " AND progress_fence > 0 AND progress_updated_at_ms > 0, false) END"
)


class ArtifactsFunction(ExecutableDDLElement):
    """Whether result, output and progress of a job are each whole, or not there at all."""


class ArtifactsCheck(ExecutableDDLElement):
    """Has every job that has any of them pass it."""


class LaneFunction(ExecutableDDLElement):
    """Registers every lane that the transaction has announced."""


class LaneTrigger(ExecutableDDLElement):
    """Runs it at the commit."""


class LedgerFunction(ExecutableDDLElement):
    """The function that one of the triggers runs; `statement` is insert, delete, ..."""

    def __init__(self, statement: str) -> None:
        self.statement = statement


class LedgerTrigger(ExecutableDDLElement):
    def __init__(self, statement: str) -> None:
        self.statement = statement


class ArchiveDefaultPartition(ExecutableDDLElement):
    """Takes what no month takes, so that an eviction never fails for want of a partition."""


def _qualified(compiler: Any, name: str) -> str:
    # Not every object has a construct of its own; a table of that name gets the same schema.
    return str(compiler.preparer.format_table(Table(name, MetaData())))


def _function_name(compiler: Any, statement: str) -> str:
    return _qualified(compiler, f"headgate_ledger_{statement}")


@compiles(LedgerFunction, "postgresql")
def _create_function(element: LedgerFunction, compiler: Any, **_: Any) -> str:
    body = _BODIES[element.statement].format(
        ledger=compiler.preparer.format_table(ledger),
        queue_count=compiler.preparer.format_table(queue_count),
        partition_count=compiler.preparer.format_table(partition_count),
    )
    name = _function_name(compiler, element.statement)
    return (
        f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql"
        f" AS $ledger$ BEGIN {body} RETURN NULL; END $ledger$"
    )


@compiles(LedgerTrigger, "postgresql")
def _create_trigger(element: LedgerTrigger, compiler: Any, **_: Any) -> str:
    table = compiler.preparer.format_table(job)
    return (
        f"CREATE TRIGGER headgate_ledger_{element.statement}"
        f" AFTER {element.statement.upper()} ON {table}{_TRANSITIONS[element.statement]}"
        " FOR EACH STATEMENT"
        f" EXECUTE FUNCTION {_function_name(compiler, element.statement)}()"
    )


@compiles(ArtifactsFunction, "postgresql")
def _create_artifacts_function(element: ArtifactsFunction, compiler: Any, **_: Any) -> str:
    arguments = ", ".join(
        f"{column.name} {column.type.compile(compiler.dialect)}" for column in _ARTIFACTS
    )
    return (
        f"CREATE OR REPLACE FUNCTION {_qualified(compiler, _ARTIFACTS_FUNCTION)}({arguments})"
        " RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE"
        f" AS $artifacts$ BEGIN RETURN {_ARTIFACTS_WHOLE}; END $artifacts$"
    )


@compiles(ArtifactsCheck, "postgresql")
def _create_artifacts_check(element: ArtifactsCheck, compiler: Any, **_: Any) -> str:
    columns = ", ".join(column.name for column in _ARTIFACTS)
    return (
        f"ALTER TABLE {compiler.preparer.format_table(job)}"
        " ADD CONSTRAINT headgate_job_artifacts_whole"
        f" CHECK (num_nonnulls({columns}) = 0"
        f" OR {_qualified(compiler, _ARTIFACTS_FUNCTION)}({columns}))"
    )


@compiles(LaneFunction, "postgresql")
def _create_lane_function(element: LaneFunction, compiler: Any, **_: Any) -> str:
    body = _REGISTER_LANES.format(
        new_lane=compiler.preparer.format_table(new_lane),
        registry=compiler.preparer.format_table(active_partition),
        inflight=compiler.preparer.format_table(inflight),
        lane=", ".join(column.name for column in new_lane.columns),
    )
    return (
        f"CREATE OR REPLACE FUNCTION {_qualified(compiler, 'headgate_register_lanes')}()"
        f" RETURNS trigger LANGUAGE plpgsql AS $lanes$ BEGIN {body} RETURN NULL; END $lanes$"
    )


@compiles(LaneTrigger, "postgresql")
def _create_lane_trigger(element: LaneTrigger, compiler: Any, **_: Any) -> str:
    return (
        "CREATE CONSTRAINT TRIGGER headgate_register_lanes AFTER INSERT ON"
        f" {compiler.preparer.format_table(new_lane)} DEFERRABLE INITIALLY DEFERRED FOR EACH ROW"
        f" EXECUTE FUNCTION {_qualified(compiler, 'headgate_register_lanes')}()"
    )


@compiles(ArchiveDefaultPartition, "postgresql")
def _create_default_partition(element: ArchiveDefaultPartition, compiler: Any, **_: Any) -> str:
    return (
        f"CREATE TABLE {_qualified(compiler, 'headgate_job_archive_default')}"
        f" PARTITION OF {compiler.preparer.format_table(job_archive)} DEFAULT"
    )


event.listen(job_archive, "after_create", ArchiveDefaultPartition())
for _statement in _BODIES:
    event.listen(metadata, "after_create", LedgerFunction(_statement))
    event.listen(metadata, "after_create", LedgerTrigger(_statement))
event.listen(metadata, "after_create", ArtifactsFunction())
event.listen(metadata, "after_create", ArtifactsCheck())
event.listen(metadata, "after_create", LaneFunction())
event.listen(metadata, "after_create", LaneTrigger())
