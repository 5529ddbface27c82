"""The draw: candidates of every open lane, their rank, what the policies leave of them, and the
lock on those that are to start.

The rank within a queue is: priority, then the round (the first job of every partition before the
second of any), then the rotation. Queues are merged by their virtual time. What a policy refuses is
neither locked nor in the way of what comes after it.
"""

from typing import Any, Final

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    FromClause,
    Select,
    case,
    cast,
    func,
    or_,
    select,
)
from sqlalchemy.types import Double

from headgate.queries.gate.parts import CAPACITY, next_jobs
from headgate.queries.gate.walk import SPARE
from headgate.queries.literals import always, number
from headgate.queries.states import is_state
from headgate.tables import job


def candidates(lane: CTE) -> Select[Any]:
    """The next jobs of each lane, unlocked: about twice as many in all as can be used.

    Of a lane under policies no more than they can let pass; a job that costs more than its class
    holds now makes way for those behind it.
    """
    waiting = job.alias("waiting")
    drawn = next_jobs(waiting, lane.c, waiting.c.id, waiting.c.scheduled_at_ms, waiting.c.weight)
    bounds: list[ColumnElement[int]] = [lane.c.share]
    cost: ColumnElement[int] = number(0)
    if "room" in lane.c:
        bounds.append(lane.c.room)
    if "level" in lane.c:
        bounds.append(lane.c.level)
        price = func.least(waiting.c.weight, lane.c.burst, type_=BigInteger)
        drawn = drawn.where(or_(lane.c.level.is_(None), price <= lane.c.level))
    ...
