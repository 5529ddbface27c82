"""Glances at the registry, far cheaper than any statement that claims."""

from functools import cache
from typing import Any

from sqlalchemy import Select, select

from headgate.queries.gate.parts import LANE_BINDS, first_job, is_served
from headgate.queries.lanes import LANE
from headgate.queries.literals import number
from headgate.tables import active_partition


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
    return first_job(LANE_BINDS)
