"""Which kinds of jobs there are, from the index of kinds: one probe for each, however many jobs."""

from functools import cache
from typing import Any, Final

from sqlalchemy import ColumnElement, Executable, Select, Text, any_, bindparam, select, tuple_
from sqlalchemy.dialects.postgresql import ARRAY

from headgate.queries.literals import always, number
from headgate.queries.states import is_state, state_value
from headgate.tables import job

MAX_KINDS: Final = 1_000


@cache
def waiting_kinds() -> Executable:
    """The kinds of which an available job, whichever comes first, waits in one of `served_queues`;
    of the first 1,000 kinds.
    """

    def smallest(*bound: ColumnElement[bool]) -> Select[Any]:
        return select(job.c.kind).where(*bound).order_by(job.c.kind).limit(number(1))

    first = smallest().subquery("first")
    found = select(first.c.kind, number(1).label("place")).cte("found", recursive=True)
    following = smallest(job.c.kind > found.c.kind).correlate(found).lateral("following")
    found = found.union_all(
        select(following.c.kind, found.c.place + number(1))
        .select_from(found.join(following, always()))
        .where(found.c.place < number(MAX_KINDS))
    )
    # The next job from the available ones of the kind on. Asked for equality, the planner might
    # walk any other index until it meets one.
    waiting = (
        select(job.c.kind, job.c.state, job.c.queue)
        .where(tuple_(job.c.kind, job.c.state) >= tuple_(found.c.kind, state_value("available")))
        .order_by(job.c.kind, job.c.state)
        .limit(number(1))
        .correlate(found)
        .lateral("waiting")
    )
    served = bindparam("served_queues", type_=ARRAY(Text))
    return (
        select(found.c.kind)
        .select_from(found.join(waiting, always()))
        .where(
            waiting.c.kind == found.c.kind,
            is_state(waiting.c.state, "available"),
            waiting.c.queue == any_(served),
        )
    )
