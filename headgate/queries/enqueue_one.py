"""The short way in: one job that is available at once, into a lane that exists.

It is what most enqueues are, so it has a statement without arrays or intermediate results. When
anything is out of the ordinary (the lane is new, a guard of `insert_jobs` holds) it writes nothing,
and the caller takes the long way.
"""

from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Executable, bindparam, cast, insert, select
from sqlalchemy.dialects.postgresql import JSONB

from headgate.queries.clock import instant
from headgate.queries.enqueue import INPUTS, PLAIN, REQUIRED, guards, record_request
from headgate.queries.lanes import LANE
from headgate.queries.literals import always, number
from headgate.tables import active_partition, job

FITTING = frozenset(PLAIN) | {"id", "headers"}
"""The inputs that it can carry."""


@cache
def insert_job(given: frozenset[str], *, chosen_ids: bool, request: bool) -> Executable:
    """Inserts the job of the binds `one_{input}`; a row (queue, available, jobs) when it did.

    The entry of its lane is pinned until the commit, as `headgate.queries.lanes` explains. Raises
    on a race that no guard could see, which undoes the statement.
    """
    job_input = _Binds(given)
    lane = (
        select(number(1).label("pinned"))
        .select_from(active_partition)
        .where(*(active_partition.c[name] == job_input[name] for name in LANE))
        .with_for_update(read=True, key_share=True)
        .subquery("lane")
    )
    clock = select(instant().label("now_ms")).subquery("clock")
    values: dict[str, ColumnElement[Any]] = {
        name: job_input[name] for name in PLAIN if name in REQUIRED or name in given
    }
    values["ulid"] = job_input["id"]
    values["enqueued_at_ms"] = values["scheduled_at_ms"] = clock.c.now_ms
    if "headers" in given:
        values["headers"] = cast(job_input["headers"], JSONB)
    row = (
        select(*values.values())
        .select_from(lane.join(clock, always()))
        .where(*guards(job_input, given, chosen_ids=chosen_ids, request=request))
    )
    writing = insert(job).from_select(list(values), row)
    if not request:
        return writing.returning(job.c.queue, always().label("available"), number(1).label("jobs"))
    inserted = writing.returning(job.c.ulid, job.c.queue, job.c.enqueued_at_ms).cte("inserted")
    return select(inserted.c.queue, always().label("available"), number(1).label("jobs")).add_cte(
        record_request(inserted).cte("recorded")
    )


class _Binds:
    """The inputs of one job, as parameters of the statement."""

    def __init__(self, given: frozenset[str]) -> None:
        self._given = given | REQUIRED

    def __getitem__(self, name: str) -> Any:
        if name in self._given:
            return bindparam(f"one_{name}", type_=INPUTS[name].type)
        return INPUTS[name].constant
