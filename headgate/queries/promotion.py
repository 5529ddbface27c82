"""What becomes due by itself: scheduled jobs and those that wait for another attempt."""

from functools import cache
from typing import Any

from sqlalchemy import BigInteger, Executable, Select, any_, bindparam, func, select, update

from headgate.queries.clock import now_ms
from headgate.queries.lanes import register
from headgate.queries.shapes import materialized, named_rows, not_passed_over
from headgate.queries.states import is_state, state_value
from headgate.tables import job


@cache
def promote_due(*, named: bool = False) -> Executable:
    """Makes up to `batch_size` due jobs available, longest due first: a row (queue) for each.

    The due time stays as it is, so a job keeps its place among those that wait in its lane. Those
    of `passed_over` stay. With `named`, of the rows `row_id_array` those that are due.
    """
    chosen = _due().where(named_rows()) if named else due_jobs()
    due = materialized(chosen.with_for_update(skip_locked=True), "due")
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


@cache
def due_jobs() -> Select[Any]:
    """The rows (id) that `promote_due` would take."""
    return (
        _due()
        .where(not_passed_over())
        .order_by(job.c.scheduled_at_ms, job.c.id)
        .limit(bindparam("batch_size", type_=BigInteger))
    )


def _due() -> Select[Any]:
    return select(job.c.id).where(
        is_state(job.c.state, "scheduled", "retryable"), job.c.scheduled_at_ms <= now_ms()
    )
