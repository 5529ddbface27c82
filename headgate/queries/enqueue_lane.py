"""The short way in: jobs that are available at once, in one lane that exists.

It is what most enqueues are, of one job and of many, so it has a statement without intermediate
results. When anything is out of the ordinary (the lane is new, a guard of `insert_jobs` holds) it
writes nothing, and the caller takes the long way.
"""

from functools import cache
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Executable,
    FromClause,
    Text,
    bindparam,
    cast,
    func,
    insert,
    select,
)
from sqlalchemy.dialects.postgresql import JSONB

from headgate.queries.clock import instant
from headgate.queries.enqueue import (
    INPUTS,
    PLAIN,
    REQUIRED,
    Inputs,
    batch_rows,
    guards,
    record_request,
)
from headgate.queries.lanes import LANE
from headgate.queries.literals import always, number, word
from headgate.tables import active_partition, job

FITTING: Final = frozenset(PLAIN) | {"id", "headers"}
"""The inputs that it can carry."""

JOINABLE: Final = ("id", "payload", "fingerprint")
"""The inputs that it also takes as one text `joined_{input}`, which drivers encode quicker than an
array and the server takes apart as quickly. Payloads must be ASCII then."""

JOINT: Final = "\x1f"
"""What stands between them: a character that JSON never has in it, nor what we make ourselves."""


@cache
def insert_in_lane(
    given: frozenset[str],
    *,
    shared: frozenset[str],
    joined: frozenset[str] = frozenset(),
    chosen_ids: bool,
    request: bool,
) -> Executable:
    """Inserts the jobs in their order, all of them or none; with a `request`, a row (jobs).

    `given` and `shared` are those of `insert_jobs`; what makes the lane must be shared where it is
    given. `joined` names those of `JOINABLE` that are one text. With every input shared it is one
    job, and nothing is sent as an array. The entry of the lane is pinned until the commit, as
    `headgate.queries.lanes` explains. Raises on a race that no guard could see, which undoes the
    statement.
    """
    apart = {name: _taken_apart(name) for name in joined}
    arrays = [name for name in INPUTS if name in (given | REQUIRED) - shared]
    source: FromClause | None = batch_rows(arrays, "batch", apart=apart) if arrays else None
    value = Inputs(shared, source)
    lane = (
        select(number(1).label("pinned"))
        .select_from(active_partition)
        .where(*(active_partition.c[name] == value[name] for name in LANE))
        .with_for_update(read=True, key_share=True)
        .subquery("lane")
    )
    clock = select(instant().label("now_ms")).subquery("clock")
    values: dict[str, ColumnElement[Any]] = {
        name: value[name] for name in PLAIN if name in REQUIRED or name in given
    }
    if "payload" in joined:
        values["payload"] = func.convert_to(value["payload"], word("UTF8"))
    values["ulid"] = value["id"]
    values["enqueued_at_ms"] = values["scheduled_at_ms"] = clock.c.now_ms
    if "headers" in given:
        values["headers"] = cast(value["headers"], JSONB)
    once = lane.join(clock, always())
    rows = select(*values.values()).select_from(
        once if source is None else once.join(source, always())
    )
    checked = (
        batch_rows(["fingerprint"], "checked", apart=apart) if "fingerprint" in arrays else None
    )
    rows = rows.where(
        *guards(Inputs(shared, checked), given, chosen_ids=chosen_ids, request=request)
    )
    writing = insert(job).from_select(list(values), rows)
    if not request:
        return writing
    inserted = writing.returning(job.c.ulid, job.c.enqueued_at_ms).cte("inserted")
    return (
        select(func.count().label("jobs"))
        .select_from(inserted)
        .add_cte(record_request(inserted).cte("recorded"))
    )


def _taken_apart(name: str) -> ColumnElement[Any]:
    return func.string_to_array(
        bindparam(f"joined_{name}", type_=Text), func.chr(number(ord(JOINT)))
    )
