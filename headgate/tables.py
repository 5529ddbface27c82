"""The schema: every table, column, check and index that Headgate keeps in PostgreSQL.

Tables carry no schema name; `headgate.queries.compilation` and the migrations translate it, so one
definition serves every installation. Times are milliseconds since the epoch on the database's
clock, durations are milliseconds. Key columns use the C collation: the gate's rotation compares
them in Python too and must agree with the index order, and byte order is cheaper.

Indexes on `headgate_job` are counted: every job pays for each of them on enqueue, claim and
acknowledgement. None covers the lease expiry, so a renewal stays a heap-only update.
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    cast,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, ENUM, JSONB

from headgate.model.lifecycle import State

metadata = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "ck": "%(table_name)s_%(constraint_name)s",
        "fk": "%(table_name)s_%(column_0_N_name)s_fkey",
    }
)

job_state = ENUM(*(state.value for state in State), name="headgate_state", metadata=metadata)


def _key(name: str, *, default: str | None = None, **options: Any) -> Column[str]:
    return Column(
        name,
        Text(collation="C"),
        nullable=False,
        server_default=None if default is None else text(f"'{default}'"),
        **options,
    )


def _number(
    name: str, default: int | None = 0, *, width: type[BigInteger] | type[Integer] = BigInteger
) -> Column[int]:
    return Column(
        name,
        width(),
        nullable=False,
        server_default=None if default is None else text(str(default)),
    )


def _optional(name: str) -> Column[int]:
    return Column(name, BigInteger)


def _flag(name: str, *, default: bool = False) -> Column[bool]:
    return Column(name, Boolean, nullable=False, server_default=text(str(default).lower()))


# Small rows that are updated in place again and again stay on their page.
_HOT_ROWS = {"fillfactor": 50}
# Dead rows of a busy table cost every reader; the defaults wait for a fifth of the table.
_BUSY_TABLE = {
    "autovacuum_vacuum_scale_factor": 0.01,
    "autovacuum_vacuum_threshold": 5000,
    "autovacuum_vacuum_insert_scale_factor": 0.02,
    "autovacuum_analyze_scale_factor": 0.02,
}

_LIVE = "state IN ('pending', 'scheduled', 'available', 'running', 'retryable')"

job = Table(
    "headgate_job",
    metadata,
    Column("id", BigInteger, primary_key=True),
    _key("ulid"),
    _key("kind"),
    _number("schema_version", 1, width=Integer),
    Column("payload", LargeBinary, nullable=False),
    _key("queue", default="default"),
    Column("state", job_state, nullable=False, server_default=text("'available'")),
    _key("partition_key", default=""),
    _key("rate_class", default=""),
    _number("weight", 1, width=Integer),
    _number("rate_charge", width=Integer),
    _key("fingerprint"),
    _number("priority", width=Integer),
    _number("attempt", width=Integer),
    _number("crash_attempt", width=Integer),
    _number("max_attempts", 25, width=Integer),
    _number("enqueued_at_ms", None),
    _number("scheduled_at_ms", None),
    _number("timeout_ms"),
    _number("deadline_ms"),
    _number("retention_ms"),
    _optional("finalized_at_ms"),
    Column("lease_id", Text(collation="C")),
    _optional("lease_expires_at_ms"),
    _optional("claimed_at_ms"),
    _number("fence"),
    Column("claimed_by", Text(collation="C")),
    Column("unique_key", LargeBinary),
    _number("unique_states", width=Integer),
    _optional("unique_expires_at_ms"),
    Column("headers", JSONB, nullable=False, server_default=text("'{}'")),
    Column("errors", JSONB, nullable=False, server_default=text("'[]'")),
    Column("checkpoint", JSONB, nullable=False, server_default=text("'{}'")),
    Column("cp_cursor", LargeBinary),
    Column("result_schema_version", Integer),
    Column("result_bytes", LargeBinary),
    Column("output_schema_version", Integer),
    Column("output_bytes", LargeBinary),
    _optional("output_fence"),
    _optional("output_updated_at_ms"),
    _optional("progress_current"),
    _optional("progress_total"),
    Column("progress_message", Text),
    _optional("progress_fence"),
    _optional("progress_updated_at_ms"),
    _key("periodic_schedule_id", default=""),
    _number("periodic_tick_ms"),
    _key("sticky_worker", default=""),
    UniqueConstraint("ulid"),
    CheckConstraint("weight > 0", name="weight_positive"),
    CheckConstraint("rate_charge >= 0", name="rate_charge_not_negative"),
    CheckConstraint("(state = 'running') = (lease_id IS NOT NULL)", name="lease_iff_running"),
    CheckConstraint(
        "(periodic_schedule_id = '') = (periodic_tick_ms = 0)", name="periodic_origin_pair"
    ),
    postgresql_with={"fillfactor": 90, **_BUSY_TABLE},
)

_AVAILABLE = text("state = 'available'")


def text_hash(value: Any, seed: Any = None) -> ColumnElement[int]:
    """A number for a text, in place of it in an index that nobody reads in the order of the text.

    Numbers of fixed width are several times as quick to compare, and smaller. Two texts may share
    one, so whoever looks for a number compares the text as well.
    """
    start = text("0") if seed is None else seed
    return func.hashtextextended(value, start, type_=BigInteger)


def lane_hash(lane: Any) -> ColumnElement[int]:
    """The same for the five columns of a lane, which `lane` has by name."""
    hashed: ColumnElement[int] = cast(lane["priority"], BigInteger)
    for name in ("queue", "sticky_worker", "partition_key", "rate_class"):
        hashed = text_hash(lane[name], hashed)
    return hashed


# Lists, one index per driving filter: equality first, then (state, id) to page through.
Index("headgate_job_queue", job.c.queue, job.c.state, job.c.id)
# With few queues or kinds the planner would take this one for theirs and filter: a walk through all
# jobs where the newest of the queue are old. So its condition, which is always true, stands only in
# the reads that are meant to use it.
Index("headgate_job_state", job.c.state, job.c.id, postgresql_where=text("id > 0"))
Index("headgate_job_kind", job.c.kind, job.c.state, job.c.id)
Index(
    "headgate_job_fingerprint",
    text_hash(job.c.fingerprint),
    job.c.state,
    job.c.id,
    postgresql_where=text("state <> 'completed'"),
)
# The gate's draw: one lane, oldest first.
Index(
    "headgate_job_lane",
    lane_hash(job.c),
    job.c.scheduled_at_ms,
    job.c.id,
    postgresql_where=_AVAILABLE,
)
# Tokens waiting ahead in a rate class.
Index(
    "headgate_job_rate_class",
    job.c.rate_class,
    job.c.queue,
    job.c.priority.desc(),
    job.c.scheduled_at_ms,
    job.c.id,
    postgresql_include=["weight"],
    postgresql_where=text("state = 'available' AND rate_class <> ''"),
)
# What runs in a partition, oldest claim first: ceilings and displacement.
Index(
    "headgate_job_running",
    job.c.queue,
    job.c.partition_key,
    job.c.claimed_at_ms,
    job.c.id,
    postgresql_where=text("state = 'running'"),
)
# What becomes due.
Index(
    "headgate_job_due",
    job.c.scheduled_at_ms,
    job.c.id,
    postgresql_where=text("state IN ('scheduled', 'retryable')"),
)
# What may be evicted: by its own retention, or by that of dead letters.
Index(
    "headgate_job_eviction",
    job.c.finalized_at_ms + job.c.retention_ms,
    postgresql_where=text(
        "state IN ('completed', 'archived', 'cancelled', 'undecodable') AND retention_ms > 0"
    ),
)
Index(
    "headgate_job_dead_letter",
    job.c.finalized_at_ms,
    job.c.id,
    postgresql_where=text("state IN ('archived', 'cancelled', 'undecodable') AND retention_ms = 0"),
)
# A key has one live holder, whatever its mode; a throttle key also outlives its job.
Index(
    "headgate_job_unique",
    job.c.unique_key,
    unique=True,
    postgresql_where=text(f"unique_key IS NOT NULL AND {_LIVE}"),
)
Index(
    "headgate_job_unique_throttle",
    job.c.unique_key,
    unique=True,
    postgresql_where=text("unique_key IS NOT NULL AND unique_expires_at_ms IS NOT NULL"),
)

job_tag = Table(
    "headgate_job_tag",
    metadata,
    Column("job_id", BigInteger, ForeignKey("headgate_job.id", ondelete="CASCADE"), nullable=False),
    _key("tag"),
    PrimaryKeyConstraint("job_id", "tag"),
    CheckConstraint("length(tag) BETWEEN 1 AND 64", name="tag_length"),
)
Index("headgate_job_tag_lookup", job_tag.c.tag, job_tag.c.job_id)

# The registry of lanes that may hold available jobs. An entry too many costs one probe; a lane
# with work and no entry would never be served, so every way into `available` registers it.
active_partition = Table(
    "headgate_active_partition",
    metadata,
    _key("queue"),
    _key("sticky_worker", default=""),
    _number("priority", width=Integer),
    _key("partition_key", default=""),
    _key("rate_class", default=""),
    # Says nothing; as the only column outside the key it can be set without locking out sharers.
    _flag("registered", default=True),
)
Index(
    "headgate_active_partition_lane",
    active_partition.c.queue,
    active_partition.c.sticky_worker,
    active_partition.c.priority.desc(),
    active_partition.c.partition_key,
    active_partition.c.rate_class,
    unique=True,
)

# Lanes on their way into the registry, from a statement to its commit: always empty to a reader.
new_lane = Table(
    "headgate_new_lane",
    metadata,
    _key("queue"),
    _key("sticky_worker"),
    _number("priority", None, width=Integer),
    _key("partition_key"),
    _key("rate_class"),
    postgresql_with={"autovacuum_vacuum_scale_factor": 0, "autovacuum_vacuum_threshold": 1000},
)

# A lock and a version per partition, not a counter: `epoch` grows with every claim under a ceiling.
inflight = Table(
    "headgate_inflight",
    metadata,
    _key("queue"),
    _key("partition_key"),
    _number("epoch"),
    PrimaryKeyConstraint("queue", "partition_key"),
    postgresql_with=_HOT_ROWS,
)

queue_state = Table(
    "headgate_queue_state",
    metadata,
    _key("queue", primary_key=True),
    _flag("paused"),
    _number("weight", 1, width=Integer),
    _number("dispatch_count"),
    Column("virtual_time", Double, nullable=False, server_default=text("0")),
    _key("rotation_cursor", default=""),
    CheckConstraint("weight > 0", name="weight_positive"),
    CheckConstraint("dispatch_count >= 0", name="dispatch_count_not_negative"),
    postgresql_with=_HOT_ROWS,
)

rate_bucket = Table(
    "headgate_rate_bucket",
    metadata,
    _key("name", primary_key=True),
    _number("tokens", None),
    _number("remainder"),
    _number("burst", None),
    _number("limit_per_window", None),
    _number("window_ms", None),
    _number("refilled_at_ms", None),
    _flag("paused"),
    # The job that the class saves up for, until then at the latest.
    Column("reserved_job_id", Text(collation="C")),
    _number("reserved_until_ms"),
    CheckConstraint("window_ms > 0", name="window_positive"),
    CheckConstraint("remainder >= 0 AND remainder < window_ms", name="remainder_within_window"),
    CheckConstraint("burst > 0 AND limit_per_window >= 0", name="limits_not_negative"),
    CheckConstraint("tokens <= burst", name="tokens_within_burst"),
    postgresql_with=_HOT_ROWS,
)

concurrency_limit = Table(
    "headgate_concurrency_limit",
    metadata,
    _key("name", primary_key=True),
    _key("queue"),
    _number("max_concurrent", None),
    _key("on_saturated", default="queue"),
    UniqueConstraint("queue"),
    CheckConstraint("max_concurrent > 0", name="max_concurrent_positive"),
    CheckConstraint(
        "on_saturated IN ('queue', 'discard', 'cancel_running', 'cancel_incoming')",
        name="on_saturated_known",
    ),
)

enqueue_policy = Table(
    "headgate_enqueue_policy",
    metadata,
    _key("queue", primary_key=True),
    _optional("max_unfinished_jobs"),
    CheckConstraint("max_unfinished_jobs >= 0", name="max_unfinished_not_negative"),
)

quarantine = Table(
    "headgate_quarantine",
    metadata,
    _key("fingerprint", primary_key=True),
    _key("kind"),
    _number("crash_count", None, width=Integer),
    _number("quarantined_at_ms", None),
    Column("sample_payload", LargeBinary),
    Column("reason", Text),
)
Index("headgate_quarantine_newest", quarantine.c.quarantined_at_ms.desc(), quarantine.c.fingerprint)

# Append-only: what happened to the counts, folded into the four tables below by a duty.
ledger = Table(
    "headgate_ledger",
    metadata,
    _key("queue"),
    _key("partition_key"),
    Column("state", job_state),
    _number("n"),
    _number("arrived"),
    _number("completed"),
    _number("bucket_ms", None),
    postgresql_with={"autovacuum_vacuum_scale_factor": 0, "autovacuum_vacuum_threshold": 5000},
)

queue_count = Table(
    "headgate_queue_count",
    metadata,
    _key("queue"),
    Column("state", job_state, nullable=False),
    _number("n"),
    PrimaryKeyConstraint("queue", "state"),
    postgresql_with=_HOT_ROWS,
)

partition_count = Table(
    "headgate_partition_count",
    metadata,
    _key("queue"),
    _key("partition_key"),
    Column("state", job_state, nullable=False),
    _number("n"),
    PrimaryKeyConstraint("queue", "partition_key", "state"),
    postgresql_with=_HOT_ROWS,
)

queue_counter = Table(
    "headgate_queue_counter",
    metadata,
    _key("queue"),
    _number("bucket_ms", None),
    _number("arrived"),
    _number("completed"),
    PrimaryKeyConstraint("queue", "bucket_ms"),
    postgresql_with=_HOT_ROWS,
)
Index("headgate_queue_counter_age", queue_counter.c.bucket_ms)
# What no roll-up has taken yet: whole hours are what becomes of the others.
Index(
    "headgate_queue_counter_minutes",
    queue_counter.c.bucket_ms,
    postgresql_where=text("bucket_ms % 3600000 <> 0"),
)

partition_counter = Table(
    "headgate_partition_counter",
    metadata,
    _key("queue"),
    _key("partition_key"),
    _number("bucket_ms", None),
    _number("arrived"),
    _number("completed"),
    PrimaryKeyConstraint("queue", "partition_key", "bucket_ms"),
    postgresql_with=_HOT_ROWS,
)
Index(
    "headgate_partition_counter_recent",
    partition_counter.c.queue,
    partition_counter.c.bucket_ms,
    partition_counter.c.partition_key,
)
Index("headgate_partition_counter_age", partition_counter.c.bucket_ms)

duty = Table(
    "headgate_duty",
    metadata,
    _key("name", primary_key=True),
    _key("holder", default=""),
    _number("expires_at_ms"),
    # What its holders have told of their work; 0 before the first success.
    _number("interval_ms"),
    _number("succeeded_at_ms"),
    _number("rows_handled"),
    postgresql_with=_HOT_ROWS,
)

worker = Table(
    "headgate_worker",
    metadata,
    _key("worker_id", primary_key=True),
    _key("host", default=""),
    _number("pid", width=Integer),
    Column("queues", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    _number("concurrency", width=Integer),
    _number("started_at_ms"),
    _number("heartbeat_at_ms"),
    Column("command", Text),
    _number("inflight", width=Integer),
    _number("polls"),
    _number("empty_polls"),
    _key("status", default="running"),
    _flag("duties_active", default=True),
    postgresql_with=_HOT_ROWS,
)

schedule = Table(
    "headgate_schedule",
    metadata,
    _key("id", primary_key=True),
    _key("kind"),
    _number("schema_version", 1, width=Integer),
    Column("payload", LargeBinary, nullable=False, server_default=text("''")),
    _key("queue", default="default"),
    _key("partition_key", default=""),
    _key("rate_class", default=""),
    _number("priority", width=Integer),
    _number("weight", 1, width=Integer),
    _number("max_attempts", 25, width=Integer),
    _number("timeout_ms"),
    _number("retention_ms"),
    Column("tags", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    _key("spec"),
    _number("next_run_ms", None),
    _optional("last_enqueued_ms"),
    _key("on_missed", default="skip"),
    _number("backfill_limit", width=Integer),
    _flag("paused"),
    _number("updated_at_ms"),
    # The application whose code declares it; empty for one made by hand.
    _key("declared_by", default=""),
    CheckConstraint("on_missed IN ('skip', 'run_once', 'backfill')", name="on_missed_known"),
)
Index("headgate_schedule_due", schedule.c.next_run_ms, postgresql_where=text("NOT paused"))

schedule_event = Table(
    "headgate_schedule_event",
    metadata,
    Column("id", BigInteger, primary_key=True),
    _key("schedule_id"),
    _number("tick_ms", None),
    _key("job_id"),
    _key("outcome"),
    _key("reason", default=""),
    _number("recorded_at_ms", None),
    # When its schedule was deleted.
    _optional("orphaned_at_ms"),
    CheckConstraint(
        "outcome IN ('enqueued', 'deduplicated', 'failed', 'skipped')", name="outcome_known"
    ),
    CheckConstraint("length(reason) <= 64", name="reason_length"),
)
Index(
    "headgate_schedule_event_newest",
    schedule_event.c.schedule_id,
    schedule_event.c.id.desc(),
)
Index(
    "headgate_schedule_event_orphaned",
    schedule_event.c.orphaned_at_ms,
    postgresql_where=text("orphaned_at_ms IS NOT NULL"),
)

effect = Table("headgate_effect", metadata, _key("key", primary_key=True), _number("at_ms"))
Index("headgate_effect_age", effect.c.at_ms)

operation = Table(
    "headgate_operation",
    metadata,
    _key("id", primary_key=True),
    _key("action"),
    Column("selector", JSONB, nullable=False),
    _key("status", default="pending"),
    _number("affected"),
    _number("total_estimated"),
    _flag("dry_run"),
    Column("error", Text),
    _number("created_at_ms"),
    _number("finished_at_ms"),
    # Where the next batch goes on: the stream of one state, up to the newest job at creation.
    Column("cursor_state", job_state),
    _number("cursor_id"),
    _number("until_id"),
    _number("clashes"),
    # Jobs move between states, so those states are gone through again until a round finds nothing.
    _number("round", width=Integer),
    _number("affected_in_round"),
    # Jobs that somebody held when their turn came; they get another one.
    Column("skipped", ARRAY(BigInteger), nullable=False, server_default=text("'{}'")),
    CheckConstraint(
        "status IN ('pending', 'running', 'completed', 'failed', 'cancelled')",
        name="status_known",
    ),
)
Index(
    "headgate_operation_open",
    operation.c.created_at_ms,
    operation.c.id,
    postgresql_where=text("status IN ('pending', 'running')"),
)
Index(
    "headgate_operation_finished",
    operation.c.finished_at_ms,
    postgresql_where=text("status IN ('completed', 'failed', 'cancelled')"),
)

queue_sample = Table(
    "headgate_queue_sample",
    metadata,
    _key("queue", primary_key=True),
    _optional("memory_bytes"),
    _number("sampled_jobs", width=Integer),
    _number("sampled_at_ms"),
    CheckConstraint("memory_bytes >= 0", name="memory_not_negative"),
)

archive_policy = Table(
    "headgate_archive_policy",
    metadata,
    _key("queue", primary_key=True),
    _number("archive_retention_ms", None),
    CheckConstraint("archive_retention_ms > 0", name="retention_positive"),
)

# Partitioned by month of eviction; the months are created ahead of time by a duty, what no month
# takes falls into the default partition.
job_archive = Table(
    "headgate_job_archive",
    metadata,
    _number("evicted_at_ms", None),
    _number("finalized_at_ms", None),
    _key("ulid"),
    _key("kind"),
    _key("queue"),
    _key("state"),
    _key("fingerprint"),
    _number("attempt", None, width=Integer),
    _number("crash_attempt", None, width=Integer),
    Column("payload", LargeBinary, nullable=False),
    Column("errors", JSONB, nullable=False),
    _number("archive_retention_ms", None),
    PrimaryKeyConstraint("evicted_at_ms", "ulid"),
    postgresql_partition_by="RANGE (evicted_at_ms)",
)
Index(
    "headgate_job_archive_queue",
    job_archive.c.queue,
    job_archive.c.evicted_at_ms,
    job_archive.c.ulid,
)
Index(
    "headgate_job_archive_expiry",
    job_archive.c.evicted_at_ms + job_archive.c.archive_retention_ms,
)

# A request that may be repeated: the key of an enqueue, kept whatever becomes of its job.
enqueue_key = Table(
    "headgate_enqueue_key",
    metadata,
    _key("scope"),
    _key("key"),
    _key("job_id"),
    _number("recorded_at_ms", None),
    PrimaryKeyConstraint("scope", "key"),
)
Index("headgate_enqueue_key_age", enqueue_key.c.recorded_at_ms)

# The stored answer of any other mutation, for its exact repetition.
idempotency = Table(
    "headgate_idempotency",
    metadata,
    _key("identity"),
    _key("method"),
    _key("route"),
    _key("key"),
    Column("request_hash", LargeBinary, nullable=False),
    _number("status", None, width=Integer),
    Column("headers", JSONB, nullable=False, server_default=text("'{}'")),
    Column("body", LargeBinary, nullable=False),
    _number("recorded_at_ms", None),
    PrimaryKeyConstraint("identity", "method", "route", "key"),
)
Index("headgate_idempotency_age", idempotency.c.recorded_at_ms)

audit = Table(
    "headgate_audit",
    metadata,
    Column("id", BigInteger, primary_key=True),
    _number("at_ms", None),
    _key("identity"),
    _key("role"),
    _key("method"),
    _key("route"),
    _key("target"),
    _key("idempotency_key"),
    _number("status", None, width=Integer),
)
Index("headgate_audit_age", audit.c.at_ms)

access_token = Table(
    "headgate_access_token",
    metadata,
    Column("token_hash", LargeBinary, primary_key=True),
    _key("identity"),
    _key("role"),
    _number("created_at_ms", None),
    _optional("revoked_at_ms"),
    CheckConstraint("role IN ('viewer', 'producer', 'operator', 'admin')", name="role_known"),
)

# What the database asks of the code that uses it, written by the migrations.
compatibility = Table(
    "headgate_compatibility",
    metadata,
    _key("revision", primary_key=True),
    _key("minimum_revision"),
)
