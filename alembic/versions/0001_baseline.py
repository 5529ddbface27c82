"""The whole schema of the first release.

Revises nothing. Frozen: what changes later is a later revision, and nothing here is imported from
the package.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None

minimum_revision = "0001"

STATE = postgresql.ENUM(
    "pending",
    "scheduled",
    "available",
    "running",
    "retryable",
    "completed",
    "archived",
    "cancelled",
    "quarantined",
    "undecodable",
    name="headgate_state",
    create_type=False,
)
# Compares by byte, wherever the database sorts text otherwise.
KEY = sa.Text(collation="C")

compatibility = sa.table(
    "headgate_compatibility",
    sa.column("revision", sa.Text),
    sa.column("minimum_revision", sa.Text),
)


def upgrade() -> None:
    STATE.create(op.get_bind(), checkfirst=False)
    op.create_table(
        "headgate_access_token",
        sa.Column("token_hash", sa.LargeBinary(), nullable=False),
        sa.Column("identity", KEY, nullable=False),
        sa.Column("role", KEY, nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("revoked_at_ms", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(
            "role IN ('viewer', 'producer', 'operator', 'admin')",
            name=op.f("headgate_access_token_role_known"),
        ),
        sa.PrimaryKeyConstraint("token_hash", name=op.f("headgate_access_token_pkey")),
    )
    op.create_table(
        "headgate_active_partition",
        sa.Column("queue", KEY, nullable=False),
        sa.Column("sticky_worker", KEY, server_default=sa.text("''"), nullable=False),
        sa.Column("priority", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("partition_key", KEY, server_default=sa.text("''"), nullable=False),
        sa.Column("rate_class", KEY, server_default=sa.text("''"), nullable=False),
        sa.Column("registered", sa.Boolean(), server_default=sa.text("true"), nullable=False),
    )
    op.create_index(
        "headgate_active_partition_lane",
        "headgate_active_partition",
        [
            "queue",
            "sticky_worker",
            sa.literal_column("priority DESC"),
            "partition_key",
            "rate_class",
        ],
        unique=True,
    )
    op.create_table(
        "headgate_archive_policy",
        sa.Column("queue", KEY, nullable=False),
        sa.Column("archive_retention_ms", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "archive_retention_ms > 0", name=op.f("headgate_archive_policy_retention_positive")
        ),
        sa.PrimaryKeyConstraint("queue", name=op.f("headgate_archive_policy_pkey")),
    )
    op.create_table(
        "headgate_audit",
        sa.Column("id", sa.BigInteger(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("identity", KEY, nullable=False),
        sa.Column("role", KEY, nullable=False),
        sa.Column("method", KEY, nullable=False),
        sa.Column("route", KEY, nullable=False),
        sa.Column("target", KEY, nullable=False),
        sa.Column("idempotency_key", KEY, nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("headgate_audit_pkey")),
    )
    op.create_index("headgate_audit_age", "headgate_audit", ["at_ms"], unique=False)
    op.create_table(
        "headgate_compatibility",
        sa.Column("revision", KEY, nullable=False),
        sa.Column("minimum_revision", KEY, nullable=False),
        sa.PrimaryKeyConstraint("revision", name=op.f("headgate_compatibility_pkey")),
    )
    op.create_table(
        "headgate_concurrency_limit",
        sa.Column("name", KEY, nullable=False),
        sa.Column("queue", KEY, nullable=False),
        sa.Column("max_concurrent", sa.BigInteger(), nullable=False),
        sa.Column("on_saturated", KEY, server_default=sa.text("'queue'"), nullable=False),
        sa.CheckConstraint(
            "on_saturated IN ('queue', 'discard', 'cancel_running', 'cancel_incoming')",
            name=op.f("headgate_concurrency_limit_on_saturated_known"),
        ),
        sa.CheckConstraint(
            "max_concurrent > 0", name=op.f("headgate_concurrency_limit_max_concurrent_positive")
        ),
        sa.PrimaryKeyConstraint("name", name=op.f("headgate_concurrency_limit_pkey")),
        sa.UniqueConstraint("queue", name=op.f("headgate_concurrency_limit_queue_key")),
    )
    op.create_table(
        "headgate_duty",
        sa.Column("name", KEY, nullable=False),
        sa.Column("holder", KEY, server_default=sa.text("''"), nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("interval_ms", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("succeeded_at_ms", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("rows_handled", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("headgate_duty_pkey")),
        postgresql_with={"fillfactor": 50},
    )
    op.create_table(
        "headgate_effect",
        sa.Column("key", KEY, nullable=False),
        sa.Column("at_ms", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("headgate_effect_pkey")),
    )
    op.create_index("headgate_effect_age", "headgate_effect", ["at_ms"], unique=False)
    op.create_table(
        "headgate_enqueue_key",
        sa.Column("scope", KEY, nullable=False),
        sa.Column("key", KEY, nullable=False),
        sa.Column("job_id", KEY, nullable=False),
        sa.Column("recorded_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("scope", "key", name=op.f("headgate_enqueue_key_pkey")),
    )
    op.create_index(
        "headgate_enqueue_key_age", "headgate_enqueue_key", ["recorded_at_ms"], unique=False
    )
    op.create_table(
        "headgate_enqueue_policy",
        sa.Column("queue", KEY, nullable=False),
        sa.Column("max_unfinished_jobs", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(
            "max_unfinished_jobs >= 0",
            name=op.f("headgate_enqueue_policy_max_unfinished_not_negative"),
        ),
        sa.PrimaryKeyConstraint("queue", name=op.f("headgate_enqueue_policy_pkey")),
    )
    op.create_table(
        "headgate_idempotency",
        sa.Column("identity", KEY, nullable=False),
        sa.Column("method", KEY, nullable=False),
        sa.Column("route", KEY, nullable=False),
        sa.Column("key", KEY, nullable=False),
        sa.Column("request_hash", sa.LargeBinary(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("headers", postgresql.JSONB(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("recorded_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "identity", "method", "route", "key", name=op.f("headgate_idempotency_pkey")
        ),
    )
    op.create_index(
        "headgate_idempotency_age", "headgate_idempotency", ["recorded_at_ms"], unique=False
    )
    op.create_table(
        "headgate_inflight",
        sa.Column("queue", KEY, nullable=False),
        sa.Column("partition_key", KEY, nullable=False),
        sa.Column("epoch", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("queue", "partition_key", name=op.f("headgate_inflight_pkey")),
        postgresql_with={"fillfactor": 50},
    )
    op.create_table(
        "headgate_job",
        sa.Column("id", sa.BigInteger(), nullable=False),
        sa.Column("ulid", KEY, nullable=False),
        sa.Column("kind", KEY, nullable=False),
        sa.Column("schema_version", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.Column("queue", KEY, server_default=sa.text("'default'"), nullable=False),
        sa.Column("state", STATE, server_default=sa.text("'available'"), nullable=False),
        sa.Column("partition_key", KEY, server_default=sa.text("''"), nullable=False),
        sa.Column("rate_class", KEY, server_default=sa.text("''"), nullable=False),
        sa.Column("weight", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("rate_charge", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("fingerprint", KEY, nullable=False),
        sa.Column("priority", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("attempt", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("crash_attempt", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("max_attempts", sa.Integer(), server_default=sa.text("25"), nullable=False),
        sa.Column("enqueued_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("scheduled_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("timeout_ms", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("deadline_ms", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("retention_ms", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("finalized_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("lease_id", KEY, nullable=True),
        sa.Column("lease_expires_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("claimed_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("fence", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("claimed_by", KEY, nullable=True),
        sa.Column("unique_key", sa.LargeBinary(), nullable=True),
        sa.Column("unique_states", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("unique_expires_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("headers", postgresql.JSONB(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("errors", postgresql.JSONB(), server_default=sa.text("'[]'"), nullable=False),
        sa.Column("checkpoint", postgresql.JSONB(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("cp_cursor", sa.LargeBinary(), nullable=True),
        sa.Column("result_schema_version", sa.Integer(), nullable=True),
        sa.Column("result_bytes", sa.LargeBinary(), nullable=True),
        sa.Column("output_schema_version", sa.Integer(), nullable=True),
        sa.Column("output_bytes", sa.LargeBinary(), nullable=True),
        sa.Column("output_fence", sa.BigInteger(), nullable=True),
        sa.Column("output_updated_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("progress_current", sa.BigInteger(), nullable=True),
        sa.Column("progress_total", sa.BigInteger(), nullable=True),
        sa.Column("progress_message", sa.Text(), nullable=True),
        sa.Column("progress_fence", sa.BigInteger(), nullable=True),
        sa.Column("progress_updated_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("periodic_schedule_id", KEY, server_default=sa.text("''"), nullable=False),
        sa.Column("periodic_tick_ms", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("sticky_worker", KEY, server_default=sa.text("''"), nullable=False),
        sa.CheckConstraint(
            "(periodic_schedule_id = '') = (periodic_tick_ms = 0)",
            name=op.f("headgate_job_periodic_origin_pair"),
        ),
        sa.CheckConstraint(
            "(state = 'running') = (lease_id IS NOT NULL)",
            name=op.f("headgate_job_lease_iff_running"),
        ),
        sa.CheckConstraint("rate_charge >= 0", name=op.f("headgate_job_rate_charge_not_negative")),
        sa.CheckConstraint("weight > 0", name=op.f("headgate_job_weight_positive")),
        sa.PrimaryKeyConstraint("id", name=op.f("headgate_job_pkey")),
        sa.UniqueConstraint("ulid", name=op.f("headgate_job_ulid_key")),
        postgresql_with={
            "fillfactor": 90,
            "autovacuum_vacuum_scale_factor": 0.01,
            "autovacuum_vacuum_threshold": 5000,
            "autovacuum_vacuum_insert_scale_factor": 0.02,
            "autovacuum_analyze_scale_factor": 0.02,
        },
    )
    op.create_index(
        "headgate_job_dead_letter",
        "headgate_job",
        ["finalized_at_ms", "id"],
        unique=False,
        postgresql_where=sa.text(
            "state IN ('archived', 'cancelled', 'undecodable') AND retention_ms = 0"
        ),
    )
    op.create_index(
        "headgate_job_due",
        "headgate_job",
        ["scheduled_at_ms", "id"],
        unique=False,
        postgresql_where=sa.text("state IN ('scheduled', 'retryable')"),
    )
    op.create_index(
        "headgate_job_eviction",
        "headgate_job",
        [sa.literal_column("(finalized_at_ms + retention_ms)")],
        unique=False,
        postgresql_where=sa.text(
            "state IN ('completed', 'archived', 'cancelled', 'undecodable') AND retention_ms > 0"
        ),
    )
    op.create_index(
        "headgate_job_fingerprint",
        "headgate_job",
        [sa.literal_column("hashtextextended(fingerprint, 0)"), "state", "id"],
        unique=False,
        postgresql_where=sa.text("state <> 'completed'"),
    )
    op.create_index("headgate_job_kind", "headgate_job", ["kind", "state", "id"], unique=False)
    op.create_index(
        "headgate_job_lane",
        "headgate_job",
        [
            sa.literal_column(
                "hashtextextended(rate_class, hashtextextended(partition_key, "
                "hashtextextended(sticky_worker, hashtextextended(queue, CAST(priority AS "
                "BIGINT)))))"
            ),
            "scheduled_at_ms",
            "id",
        ],
        unique=False,
        postgresql_where=sa.text("state = 'available'"),
    )
    op.create_index("headgate_job_queue", "headgate_job", ["queue", "state", "id"], unique=False)
    op.create_index(
        "headgate_job_rate_class",
        "headgate_job",
        ["rate_class", "queue", sa.literal_column("priority DESC"), "scheduled_at_ms", "id"],
        unique=False,
        postgresql_include=["weight"],
        postgresql_where=sa.text("state = 'available' AND rate_class <> ''"),
    )
    op.create_index(
        "headgate_job_running",
        "headgate_job",
        ["queue", "partition_key", "claimed_at_ms", "id"],
        unique=False,
        postgresql_where=sa.text("state = 'running'"),
    )
    op.create_index(
        "headgate_job_state",
        "headgate_job",
        ["state", "id"],
        unique=False,
        postgresql_where=sa.text("id > 0"),
    )
    op.create_index(
        "headgate_job_unique",
        "headgate_job",
        ["unique_key"],
        unique=True,
        postgresql_where=sa.text(
            "unique_key IS NOT NULL AND state IN ('pending', 'scheduled', 'available', "
            "'running', 'retryable')"
        ),
    )
    op.create_index(
        "headgate_job_unique_throttle",
        "headgate_job",
        ["unique_key"],
        unique=True,
        postgresql_where=sa.text("unique_key IS NOT NULL AND unique_expires_at_ms IS NOT NULL"),
    )
    op.create_table(
        "headgate_job_archive",
        sa.Column("evicted_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("finalized_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("ulid", KEY, nullable=False),
        sa.Column("kind", KEY, nullable=False),
        sa.Column("queue", KEY, nullable=False),
        sa.Column("state", KEY, nullable=False),
        sa.Column("fingerprint", KEY, nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("crash_attempt", sa.Integer(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.Column("errors", postgresql.JSONB(), nullable=False),
        sa.Column("archive_retention_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("evicted_at_ms", "ulid", name=op.f("headgate_job_archive_pkey")),
        postgresql_partition_by="RANGE (evicted_at_ms)",
    )
    op.create_index(
        "headgate_job_archive_expiry",
        "headgate_job_archive",
        [sa.literal_column("(evicted_at_ms + archive_retention_ms)")],
        unique=False,
    )
    op.create_index(
        "headgate_job_archive_queue",
        "headgate_job_archive",
        ["queue", "evicted_at_ms", "ulid"],
        unique=False,
    )
    op.create_table(
        "headgate_ledger",
        sa.Column("queue", KEY, nullable=False),
        sa.Column("partition_key", KEY, nullable=False),
        sa.Column("state", STATE, nullable=True),
        sa.Column("n", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("arrived", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("completed", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("bucket_ms", sa.BigInteger(), nullable=False),
        postgresql_with={"autovacuum_vacuum_scale_factor": 0, "autovacuum_vacuum_threshold": 5000},
    )
    op.create_table(
        "headgate_new_lane",
        sa.Column("queue", KEY, nullable=False),
        sa.Column("sticky_worker", KEY, nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("partition_key", KEY, nullable=False),
        sa.Column("rate_class", KEY, nullable=False),
        postgresql_with={"autovacuum_vacuum_scale_factor": 0, "autovacuum_vacuum_threshold": 1000},
    )
    op.create_table(
        "headgate_operation",
        sa.Column("id", KEY, nullable=False),
        sa.Column("action", KEY, nullable=False),
        sa.Column("selector", postgresql.JSONB(), nullable=False),
        sa.Column("status", KEY, server_default=sa.text("'pending'"), nullable=False),
        sa.Column("affected", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("total_estimated", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("dry_run", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created_at_ms", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("finished_at_ms", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("cursor_state", STATE, nullable=True),
        sa.Column("cursor_id", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("until_id", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("clashes", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("round", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "affected_in_round", sa.BigInteger(), server_default=sa.text("0"), nullable=False
        ),
        sa.Column(
            "skipped",
            postgresql.ARRAY(sa.BigInteger()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
        sa.CheckConstraint(
            "status IN ('pending', 'running', 'completed', 'failed', 'cancelled')",
            name=op.f("headgate_operation_status_known"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("headgate_operation_pkey")),
    )
    op.create_index(
        "headgate_operation_finished",
        "headgate_operation",
        ["finished_at_ms"],
        unique=False,
        postgresql_where=sa.text("status IN ('completed', 'failed', 'cancelled')"),
    )
    op.create_index(
        "headgate_operation_open",
        "headgate_operation",
        ["created_at_ms", "id"],
        unique=False,
        postgresql_where=sa.text("status IN ('pending', 'running')"),
    )
    op.create_table(
        "headgate_partition_count",
        sa.Column("queue", KEY, nullable=False),
        sa.Column("partition_key", KEY, nullable=False),
        sa.Column("state", STATE, nullable=False),
        sa.Column("n", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint(
            "queue", "partition_key", "state", name=op.f("headgate_partition_count_pkey")
        ),
        postgresql_with={"fillfactor": 50},
    )
    op.create_table(
        "headgate_partition_counter",
        sa.Column("queue", KEY, nullable=False),
        sa.Column("partition_key", KEY, nullable=False),
        sa.Column("bucket_ms", sa.BigInteger(), nullable=False),
        sa.Column("arrived", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("completed", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint(
            "queue", "partition_key", "bucket_ms", name=op.f("headgate_partition_counter_pkey")
        ),
        postgresql_with={"fillfactor": 50},
    )
    op.create_index(
        "headgate_partition_counter_age", "headgate_partition_counter", ["bucket_ms"], unique=False
    )
    op.create_index(
        "headgate_partition_counter_recent",
        "headgate_partition_counter",
        ["queue", "bucket_ms", "partition_key"],
        unique=False,
    )
    op.create_table(
        "headgate_quarantine",
        sa.Column("fingerprint", KEY, nullable=False),
        sa.Column("kind", KEY, nullable=False),
        sa.Column("crash_count", sa.Integer(), nullable=False),
        sa.Column("quarantined_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("sample_payload", sa.LargeBinary(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("fingerprint", name=op.f("headgate_quarantine_pkey")),
    )
    op.create_index(
        "headgate_quarantine_newest",
        "headgate_quarantine",
        [sa.literal_column("quarantined_at_ms DESC"), "fingerprint"],
        unique=False,
    )
    op.create_table(
        "headgate_queue_count",
        sa.Column("queue", KEY, nullable=False),
        sa.Column("state", STATE, nullable=False),
        sa.Column("n", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("queue", "state", name=op.f("headgate_queue_count_pkey")),
        postgresql_with={"fillfactor": 50},
    )
    op.create_table(
        "headgate_queue_counter",
        sa.Column("queue", KEY, nullable=False),
        sa.Column("bucket_ms", sa.BigInteger(), nullable=False),
        sa.Column("arrived", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("completed", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("queue", "bucket_ms", name=op.f("headgate_queue_counter_pkey")),
        postgresql_with={"fillfactor": 50},
    )
    op.create_index(
        "headgate_queue_counter_age", "headgate_queue_counter", ["bucket_ms"], unique=False
    )
    op.create_index(
        "headgate_queue_counter_minutes",
        "headgate_queue_counter",
        ["bucket_ms"],
        unique=False,
        postgresql_where=sa.text("bucket_ms % 3600000 <> 0"),
    )
    op.create_table(
        "headgate_queue_sample",
        sa.Column("queue", KEY, nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=True),
        sa.Column("sampled_jobs", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("sampled_at_ms", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.CheckConstraint(
            "memory_bytes >= 0", name=op.f("headgate_queue_sample_memory_not_negative")
        ),
        sa.PrimaryKeyConstraint("queue", name=op.f("headgate_queue_sample_pkey")),
    )
    op.create_table(
        "headgate_queue_state",
        sa.Column("queue", KEY, nullable=False),
        sa.Column("paused", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("weight", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("dispatch_count", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("virtual_time", sa.Double(), server_default=sa.text("0"), nullable=False),
        sa.Column("rotation_cursor", KEY, server_default=sa.text("''"), nullable=False),
        sa.CheckConstraint(
            "dispatch_count >= 0", name=op.f("headgate_queue_state_dispatch_count_not_negative")
        ),
        sa.CheckConstraint("weight > 0", name=op.f("headgate_queue_state_weight_positive")),
        sa.PrimaryKeyConstraint("queue", name=op.f("headgate_queue_state_pkey")),
        postgresql_with={"fillfactor": 50},
    )
    op.create_table(
        "headgate_rate_bucket",
        sa.Column("name", KEY, nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("remainder", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("burst", sa.BigInteger(), nullable=False),
        sa.Column("limit_per_window", sa.BigInteger(), nullable=False),
        sa.Column("window_ms", sa.BigInteger(), nullable=False),
        sa.Column("refilled_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("paused", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("reserved_job_id", KEY, nullable=True),
        sa.Column(
            "reserved_until_ms", sa.BigInteger(), server_default=sa.text("0"), nullable=False
        ),
        sa.CheckConstraint(
            "burst > 0 AND limit_per_window >= 0",
            name=op.f("headgate_rate_bucket_limits_not_negative"),
        ),
        sa.CheckConstraint(
            "remainder >= 0 AND remainder < window_ms",
            name=op.f("headgate_rate_bucket_remainder_within_window"),
        ),
        sa.CheckConstraint(
            "tokens <= burst", name=op.f("headgate_rate_bucket_tokens_within_burst")
        ),
        sa.CheckConstraint("window_ms > 0", name=op.f("headgate_rate_bucket_window_positive")),
        sa.PrimaryKeyConstraint("name", name=op.f("headgate_rate_bucket_pkey")),
        postgresql_with={"fillfactor": 50},
    )
    op.create_table(
        "headgate_schedule",
        sa.Column("id", KEY, nullable=False),
        sa.Column("kind", KEY, nullable=False),
        sa.Column("schema_version", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("payload", sa.LargeBinary(), server_default=sa.text("''"), nullable=False),
        sa.Column("queue", KEY, server_default=sa.text("'default'"), nullable=False),
        sa.Column("partition_key", KEY, server_default=sa.text("''"), nullable=False),
        sa.Column("rate_class", KEY, server_default=sa.text("''"), nullable=False),
        sa.Column("priority", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("weight", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("max_attempts", sa.Integer(), server_default=sa.text("25"), nullable=False),
        sa.Column("timeout_ms", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("retention_ms", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "tags", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False
        ),
        sa.Column("spec", KEY, nullable=False),
        sa.Column("next_run_ms", sa.BigInteger(), nullable=False),
        sa.Column("last_enqueued_ms", sa.BigInteger(), nullable=True),
        sa.Column("on_missed", KEY, server_default=sa.text("'skip'"), nullable=False),
        sa.Column("backfill_limit", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("paused", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("declared_by", KEY, server_default=sa.text("''"), nullable=False),
        sa.CheckConstraint(
            "on_missed IN ('skip', 'run_once', 'backfill')",
            name=op.f("headgate_schedule_on_missed_known"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("headgate_schedule_pkey")),
    )
    op.create_index(
        "headgate_schedule_due",
        "headgate_schedule",
        ["next_run_ms"],
        unique=False,
        postgresql_where=sa.text("NOT paused"),
    )
    op.create_table(
        "headgate_schedule_event",
        sa.Column("id", sa.BigInteger(), nullable=False),
        sa.Column("schedule_id", KEY, nullable=False),
        sa.Column("tick_ms", sa.BigInteger(), nullable=False),
        sa.Column("job_id", KEY, nullable=False),
        sa.Column("outcome", KEY, nullable=False),
        sa.Column("reason", KEY, server_default=sa.text("''"), nullable=False),
        sa.Column("recorded_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("orphaned_at_ms", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(
            "outcome IN ('enqueued', 'deduplicated', 'failed', 'skipped')",
            name=op.f("headgate_schedule_event_outcome_known"),
        ),
        sa.CheckConstraint(
            "length(reason) <= 64", name=op.f("headgate_schedule_event_reason_length")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("headgate_schedule_event_pkey")),
    )
    op.create_index(
        "headgate_schedule_event_newest",
        "headgate_schedule_event",
        ["schedule_id", sa.literal_column("id DESC")],
        unique=False,
    )
    op.create_index(
        "headgate_schedule_event_orphaned",
        "headgate_schedule_event",
        ["orphaned_at_ms"],
        unique=False,
        postgresql_where=sa.text("orphaned_at_ms IS NOT NULL"),
    )
    op.create_table(
        "headgate_worker",
        sa.Column("worker_id", KEY, nullable=False),
        sa.Column("host", KEY, server_default=sa.text("''"), nullable=False),
        sa.Column("pid", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "queues", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False
        ),
        sa.Column("concurrency", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("started_at_ms", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("heartbeat_at_ms", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("command", sa.Text(), nullable=True),
        sa.Column("inflight", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("polls", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("empty_polls", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("status", KEY, server_default=sa.text("'running'"), nullable=False),
        sa.Column("duties_active", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.PrimaryKeyConstraint("worker_id", name=op.f("headgate_worker_pkey")),
        postgresql_with={"fillfactor": 50},
    )
    op.create_table(
        "headgate_job_tag",
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("tag", KEY, nullable=False),
        sa.CheckConstraint(
            "length(tag) BETWEEN 1 AND 64", name=op.f("headgate_job_tag_tag_length")
        ),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["headgate_job.id"],
            name=op.f("headgate_job_tag_job_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("job_id", "tag", name=op.f("headgate_job_tag_pkey")),
    )
    op.create_index("headgate_job_tag_lookup", "headgate_job_tag", ["tag", "job_id"], unique=False)
    _execute(
        "CREATE TABLE %(schema)s.headgate_job_archive_default PARTITION OF "
        "%(schema)s.headgate_job_archive DEFAULT"
    )
    _execute(
        "CREATE FUNCTION %(schema)s.headgate_ledger_insert() RETURNS trigger LANGUAGE plpgsql"
        " AS $ledger$ BEGIN INSERT INTO %(schema)s.headgate_ledger (queue, partition_key, "
        "state, n, arrived, bucket_ms) SELECT queue, partition_key, state, count(*), "
        "count(*), ((extract(epoch from clock_timestamp()) * 1000)::bigint / 60000) * 60000 "
        "FROM fresh GROUP BY queue, partition_key, state; RETURN NULL; END $ledger$"
    )
    _execute(
        "CREATE TRIGGER headgate_ledger_insert AFTER INSERT ON %(schema)s.headgate_job "
        "REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION "
        "%(schema)s.headgate_ledger_insert()"
    )
    _execute(
        "CREATE FUNCTION %(schema)s.headgate_ledger_delete() RETURNS trigger LANGUAGE plpgsql"
        " AS $ledger$ BEGIN INSERT INTO %(schema)s.headgate_ledger (queue, partition_key, "
        "state, n, bucket_ms) SELECT queue, partition_key, state, -count(*), ((extract(epoch "
        "from clock_timestamp()) * 1000)::bigint / 60000) * 60000 FROM gone GROUP BY queue, "
        "partition_key, state; RETURN NULL; END $ledger$"
    )
    _execute(
        "CREATE TRIGGER headgate_ledger_delete AFTER DELETE ON %(schema)s.headgate_job "
        "REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION "
        "%(schema)s.headgate_ledger_delete()"
    )
    _execute(
        "CREATE FUNCTION %(schema)s.headgate_ledger_update() RETURNS trigger LANGUAGE plpgsql"
        " AS $ledger$ BEGIN INSERT INTO %(schema)s.headgate_ledger (queue, partition_key, "
        "state, n, bucket_ms) SELECT queue, partition_key, state, sum(change), "
        "((extract(epoch from clock_timestamp()) * 1000)::bigint / 60000) * 60000 FROM "
        "(SELECT queue, partition_key, state, 1 AS change FROM fresh UNION ALL SELECT queue, "
        "partition_key, state, -1 FROM gone) AS changes GROUP BY queue, partition_key, state "
        "HAVING sum(change) <> 0; RETURN NULL; END $ledger$"
    )
    _execute(
        "CREATE TRIGGER headgate_ledger_update AFTER UPDATE ON %(schema)s.headgate_job "
        "REFERENCING OLD TABLE AS gone NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION"
        " %(schema)s.headgate_ledger_update()"
    )
    _execute(
        "CREATE FUNCTION %(schema)s.headgate_ledger_truncate() RETURNS trigger LANGUAGE "
        "plpgsql AS $ledger$ BEGIN DELETE FROM %(schema)s.headgate_ledger; DELETE FROM "
        "%(schema)s.headgate_queue_count; DELETE FROM %(schema)s.headgate_partition_count; "
        "RETURN NULL; END $ledger$"
    )
    _execute(
        "CREATE TRIGGER headgate_ledger_truncate AFTER TRUNCATE ON %(schema)s.headgate_job "
        "FOR EACH STATEMENT EXECUTE FUNCTION %(schema)s.headgate_ledger_truncate()"
    )
    _execute(
        "CREATE FUNCTION %(schema)s.headgate_artifacts_whole(result_schema_version INTEGER, "
        "result_bytes BYTEA, output_schema_version INTEGER, output_bytes BYTEA, output_fence "
        "BIGINT, output_updated_at_ms BIGINT, progress_current BIGINT, progress_total BIGINT,"
        " progress_message TEXT, progress_fence BIGINT, progress_updated_at_ms BIGINT) "
        "RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $artifacts$ BEGIN RETURN"
        " CASE WHEN result_bytes IS NULL THEN result_schema_version IS NULL ELSE "
        "coalesce(result_schema_version > 0, false) END AND CASE WHEN output_bytes IS NULL "
        "THEN output_schema_version IS NULL AND output_fence IS NULL AND output_updated_at_ms"
        " IS NULL ELSE coalesce(output_schema_version > 0 AND output_fence > 0 AND "
        "output_updated_at_ms > 0, false) END AND CASE WHEN progress_current IS NULL THEN "
        "progress_total IS NULL AND progress_message IS NULL AND progress_fence IS NULL AND "
        "progress_updated_at_ms IS NULL ELSE coalesce(progress_current BETWEEN 0 AND "
        "progress_total AND progress_total BETWEEN 1 AND 9007199254740991 AND "
        "(progress_message IS NULL OR octet_length(progress_message) <= 512) AND "
        "progress_fence > 0 AND progress_updated_at_ms > 0, false) END; END $artifacts$"
    )
    _execute(
        "ALTER TABLE %(schema)s.headgate_job ADD CONSTRAINT headgate_job_artifacts_whole "
        "CHECK (num_nonnulls(result_schema_version, result_bytes, output_schema_version, "
        "output_bytes, output_fence, output_updated_at_ms, progress_current, progress_total, "
        "progress_message, progress_fence, progress_updated_at_ms) = 0 OR "
        "%(schema)s.headgate_artifacts_whole(result_schema_version, result_bytes, "
        "output_schema_version, output_bytes, output_fence, output_updated_at_ms, "
        "progress_current, progress_total, progress_message, progress_fence, "
        "progress_updated_at_ms))"
    )
    _execute(
        "CREATE FUNCTION %(schema)s.headgate_register_lanes() RETURNS trigger LANGUAGE "
        "plpgsql AS $lanes$ BEGIN WITH announced AS (DELETE FROM %(schema)s.headgate_new_lane"
        " RETURNING queue, sticky_worker, priority, partition_key, rate_class), added AS "
        "(INSERT INTO %(schema)s.headgate_active_partition (queue, sticky_worker, priority, "
        "partition_key, rate_class) SELECT DISTINCT queue, sticky_worker, priority, "
        "partition_key, rate_class FROM announced ORDER BY queue, sticky_worker, priority, "
        "partition_key, rate_class ON CONFLICT (queue, sticky_worker, priority, "
        "partition_key, rate_class) DO UPDATE SET registered = excluded.registered RETURNING "
        "queue, partition_key) INSERT INTO %(schema)s.headgate_inflight (queue, "
        "partition_key) SELECT DISTINCT queue, partition_key FROM added ORDER BY queue, "
        "partition_key ON CONFLICT DO NOTHING; RETURN NULL; END $lanes$"
    )
    _execute(
        "CREATE CONSTRAINT TRIGGER headgate_register_lanes AFTER INSERT ON "
        "%(schema)s.headgate_new_lane DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE "
        "FUNCTION %(schema)s.headgate_register_lanes()"
    )
    op.bulk_insert(compatibility, [{"revision": revision, "minimum_revision": minimum_revision}])


def downgrade() -> None:
    for table in (
        "headgate_job_tag",
        "headgate_worker",
        "headgate_schedule_event",
        "headgate_schedule",
        "headgate_rate_bucket",
        "headgate_queue_state",
        "headgate_queue_sample",
        "headgate_queue_counter",
        "headgate_queue_count",
        "headgate_quarantine",
        "headgate_partition_counter",
        "headgate_partition_count",
        "headgate_operation",
        "headgate_new_lane",
        "headgate_ledger",
        "headgate_job_archive",
        "headgate_job",
        "headgate_inflight",
        "headgate_idempotency",
        "headgate_enqueue_policy",
        "headgate_enqueue_key",
        "headgate_effect",
        "headgate_duty",
        "headgate_concurrency_limit",
        "headgate_compatibility",
        "headgate_audit",
        "headgate_archive_policy",
        "headgate_active_partition",
        "headgate_access_token",
    ):
        op.drop_table(table)
    _execute("DROP FUNCTION %(schema)s.headgate_ledger_insert()")
    _execute("DROP FUNCTION %(schema)s.headgate_ledger_delete()")
    _execute("DROP FUNCTION %(schema)s.headgate_ledger_update()")
    _execute("DROP FUNCTION %(schema)s.headgate_ledger_truncate()")
    _execute("DROP FUNCTION %(schema)s.headgate_artifacts_whole")
    _execute("DROP FUNCTION %(schema)s.headgate_register_lanes()")
    STATE.drop(op.get_bind(), checkfirst=False)


def _execute(statement: str) -> None:
    """Runs a statement in which `%(schema)s` stands for the quoted schema."""
    table = sa.Table("headgate_job", sa.MetaData())
    op.execute(sa.DDL(statement).against(table))  # type: ignore[no-untyped-call]  # SQLAlchemy's
