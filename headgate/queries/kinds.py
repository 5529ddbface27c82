"""Which kinds of jobs there are, from the index of kinds: one probe for each, however many jobs."""

from functools import cache
from typing import Any, Final

from sqlalchemy import ColumnElement, Executable, Select, Text, any_, bindparam, select
from sqlalchemy.dialects.postgresql import ARRAY

from headgate.queries.literals import always, number
from headgate.queries.states import is_state
from headgate.tables import job

MAX_KINDS: Final = 1_000


@cache
def waiting_kinds() -> Executable:
    """The kinds whose oldest available job waits in one of `served_queues`, of the first 1,000."""

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
    oldest = (
        select(job.c.queue)
        .where(job.c.kind == found.c.kind, is_state(job.c.state, "available"))
        .order_by(job.c.id)
        .limit(number(1))
        .correlate(found)
        .lateral("oldest")
    )
    served = bindparam("served_queues", type_=ARRAY(Text))
    return (
        select(found.c.kind)
        .select_from(found.join(oldest, always()))
        .where(oldest.c.queue == any_(served))
    )
