"""What becomes due by itself: scheduled jobs and those that wait for another attempt."""

from functools import cache

from sqlalchemy import BigInteger, Executable, any_, bindparam, func, select, update

from headgate.queries.clock import now_ms
from headgate.queries.lanes import register
from headgate.queries.states import is_state, state_value
from headgate.tables import job


@cache
def promote_due() -> Executable:
    """Makes up to `batch_size` due jobs available, longest due first: a row (queue) for each.

    The due time stays as it is, so a job keeps its place among those that wait in its lane.
    """
    now = now_ms()
    due = (
        select(job.c.id)
        .where(is_state(job.c.state, "scheduled", "retryable"), job.c.scheduled_at_ms <= now)
        .order_by(job.c.scheduled_at_ms, job.c.id)
        .limit(bindparam("batch_size", type_=BigInteger))
        .with_for_update(skip_locked=True)
        .cte("due")
        .prefix_with("MATERIALIZED")
    )
    promoted = (
        update(job)
        # Only the ids: they are locked and in the right state, and to say so again would offer the
        # planner the partial indexes of that state, which it would read whole.
        .where(job.c.id == any_(func.array(select(due.c.id).scalar_subquery())))
        .values(state=state_value("available"))
        .returning(
            job.c.queue,
            job.c.sticky_worker,
            job.c.priority,
            job.c.partition_key,
            job.c.rate_class,
        )
        .cte("promoted")
    )
    return select(promoted.c.queue).add_cte(*register(promoted))
