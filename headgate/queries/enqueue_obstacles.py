"""What stands in the way of an enqueue: asked one by one when the quick statement wrote nothing."""

from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    LargeBinary,
    Select,
    Text,
    Update,
    any_,
    bindparam,
    cast,
    func,
    literal_column,
    null,
    select,
    union_all,
    update,
)

from headgate.queries.clock import now_ms
from headgate.queries.enqueue import batch_array
from headgate.queries.states import is_live
from headgate.tables import (
    enqueue_key,
    enqueue_policy,
    job,
    ledger,
    quarantine,
    queue_count,
)


@cache
def find_request() -> Select[Any]:
    """The job that an earlier request of this key made."""
    return select(enqueue_key.c.job_id).where(
        enqueue_key.c.scope == bindparam("request_scope", type_=Text),
        enqueue_key.c.key == bindparam("request_key", type_=Text),
    )


@cache
def existing_jobs() -> Select[Any]:
    """Who has the ids of `id_array` already."""
    return select(job.c.ulid, job.c.kind, job.c.fingerprint, job.c.queue).where(
        job.c.ulid == any_(batch_array("id", Text()))
    )


@cache
def quarantined_fingerprints() -> Select[Any]:
    """Which of `fingerprint_array` are quarantined."""
    return select(quarantine.c.fingerprint).where(
        quarantine.c.fingerprint == any_(batch_array("fingerprint", Text()))
    )


@cache
def lock_limits() -> Select[Any]:
    """The limits of the queues in `queue_array`, locked in the order of their names.

    Only queues that have one: elsewhere producers never meet.
    """
    return (
        select(enqueue_policy.c.queue, enqueue_policy.c.max_unfinished_jobs)
        .where(
            enqueue_policy.c.queue == any_(batch_array("queue", Text())),
            enqueue_policy.c.max_unfinished_jobs.is_not(None),
        )
        .order_by(enqueue_policy.c.queue)
        .with_for_update()
    )


@cache
def unfinished_jobs() -> Select[Any]:
    """How many unfinished jobs each queue of `queue_array` holds, exactly.

    Base rows and what is not folded yet, in one snapshot; run it after `lock_limits`, so that the
    snapshot is newer than the wait.
    """
    queues = any_(batch_array("queue", Text()))
    counts = union_all(
        select(queue_count.c.queue, queue_count.c.n).where(
            queue_count.c.queue == queues, is_live(queue_count.c.state)
        ),
        select(ledger.c.queue, ledger.c.n).where(ledger.c.queue == queues, is_live(ledger.c.state)),
    ).subquery("counts")
    return select(
        counts.c.queue, cast(func.greatest(func.sum(counts.c.n), 0), BigInteger).label("current")
    ).group_by(counts.c.queue)


@cache
def key_holders() -> Select[Any]:
    """Who holds the effective keys of `unique_key_array`: live jobs, and throttles of any state.

    Two probes, one per unique index; a live throttle answers to both. `lapsed` tells a throttle
    whose window is over.
    """
    keys = any_(batch_array("unique_key", LargeBinary()))
    lapsed = func.coalesce(job.c.unique_expires_at_ms <= now_ms(), literal_column("false")).label(
        "lapsed"
    )
    columns = (job.c.id, job.c.ulid, job.c.unique_key, lapsed)
    return union_all(
        select(*columns).where(
            job.c.unique_key == keys, job.c.unique_key.is_not(None), is_live(job.c.state)
        ),
        select(*columns).where(
            job.c.unique_key == keys,
            job.c.unique_key.is_not(None),
            job.c.unique_expires_at_ms.is_not(None),
        ),
    )  # type: ignore[return-value]  # a compound select is used like a select


@cache
def release_lapsed_keys() -> Update:
    """Frees the keys of throttles in `row_id_array` whose window is over.

    The key goes altogether: kept as a lifecycle key it could clash with its new holder.
    """
    return (
        update(job)
        .where(
            job.c.id == any_(batch_array("row_id", BigInteger())),
            job.c.unique_expires_at_ms <= now_ms(),
        )
        .values(unique_key=null(), unique_expires_at_ms=null())
        .returning(job.c.id)
    )
