"""A glance at the registry, far cheaper than any statement that claims."""

from functools import cache
from typing import Any

from sqlalchemy import Select, func, select

from headgate.queries.gate.parts import is_lane, is_served
from headgate.queries.lanes import LANE
from headgate.queries.literals import always, never, number
from headgate.queries.states import is_state
from headgate.tables import active_partition, job


@cache
def survey() -> Select[Any]:
    """Up to two lanes that the worker may serve: none, one or several is what matters.

    A row has the columns of the lane and `occupied`: some job waits in it.
    """
    waiting = job.alias("waiting")
    # Not EXISTS, which may be planned as one pass over all available jobs.
    occupied = (
        select(always())
        .where(*is_lane(waiting, active_partition.c), is_state(waiting.c.state, "available"))
        .limit(number(1))
        .scalar_subquery()
    )
    return (
        select(
            *(active_partition.c[name] for name in LANE),
            func.coalesce(occupied, never()).label("occupied"),
        )
        .where(*is_served(active_partition))
        .limit(number(2))
    )
