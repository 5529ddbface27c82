"""Glances at the registry, far cheaper than any statement that claims."""

from functools import cache
from typing import Any

from sqlalchemy import Select, select

from headgate.queries.gate.parts import LANE_BINDS, is_lane, is_served
from headgate.queries.lanes import LANE
from headgate.queries.literals import number
from headgate.queries.states import is_state
from headgate.tables import active_partition, job


@cache
def survey() -> Select[Any]:
    """Up to two lanes that the worker may serve: none, one or several is what matters."""
    return (
        select(*(active_partition.c[name] for name in LANE))
        .where(*is_served(active_partition))
        .limit(number(2))
    )


@cache
def occupied() -> Select[Any]:
    """A row if some job waits in the lane, whatever keeps it from starting."""
    return (
        select(number(1))
        .where(*is_lane(job, LANE_BINDS), is_state(job.c.state, "available"))
        .limit(number(1))
    )
