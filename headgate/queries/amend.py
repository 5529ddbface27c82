"""How a duplicate changes the job that holds its key: replacement by field, and debounce."""

from functools import cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Executable,
    Integer,
    LargeBinary,
    Text,
    bindparam,
    case,
    cast,
    delete,
    func,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB, insert

from headgate.model.envelope import (
    REPLACE_MAX_ATTEMPTS,
    REPLACE_PAYLOAD,
    REPLACE_PRIORITY,
    REPLACE_SCHEDULED_AT,
)
from headgate.queries.clock import now_ms
from headgate.queries.lanes import register
from headgate.queries.literals import always, number
from headgate.queries.states import is_state, state_value
from headgate.tables import job, job_state, job_tag

_AMENDABLE: Final = ("pending", "scheduled", "available", "retryable")


def _given(name: str, kind: Any) -> Any:
    return bindparam(f"new_{name}", type_=kind)


@cache
def amend_holder(replace: int, *, debounce: bool) -> Executable:
    """Changes the holder `holder_id` as the mask says, unless it runs or has ended by now.

    A row comes back when something changed. A debounce re-arms the holder and takes over payload
    and tags; a pending one keeps waiting for its operator. The due time is replaced in a scheduled
    holder only, since anywhere else it would be a change of state.
    """
    now = now_ms()
    values: dict[str, ColumnElement[Any]] = {}
    if debounce or replace & REPLACE_PAYLOAD:
        values["payload"] = _given("payload", LargeBinary)
        values["schema_version"] = _given("schema_version", Integer)
        values["fingerprint"] = _given("fingerprint", Text)
    if replace & REPLACE_PRIORITY:
        values["priority"] = _given("priority", Integer)
    if replace & REPLACE_MAX_ATTEMPTS:
        values["max_attempts"] = _given("max_attempts", Integer)
    amendable = is_state(job.c.state, *_AMENDABLE)
    pending = job.c.state == state_value("pending")
    if debounce:
        values["state"] = cast(
            case((pending, state_value("pending")), else_=state_value("scheduled")), job_state
        )
        values["scheduled_at_ms"] = case(
            (pending, job.c.scheduled_at_ms),
            else_=now + _given("debounce_ms", BigInteger),
        )
    elif replace & REPLACE_SCHEDULED_AT:
        scheduled = job.c.state == state_value("scheduled")
        due = _given("scheduled_at_ms", BigInteger)
        delay = _given("delay_ms", BigInteger)
        values["scheduled_at_ms"] = case(
            (scheduled & (delay > number(0)), now + delay),
            (scheduled & (due > number(0)), due),
            (scheduled, now),
            else_=job.c.scheduled_at_ms,
        )
        if replace == REPLACE_SCHEDULED_AT:
            amendable = scheduled
    amended = (
        update(job)
        .where(
            job.c.id == bindparam("holder_id", type_=BigInteger),
            job.c.unique_key == bindparam("holder_key", type_=LargeBinary),
            amendable,
        )
        .values(values)
        .returning(
            job.c.id,
            job.c.queue,
            job.c.sticky_worker,
            job.c.priority,
            job.c.partition_key,
            job.c.rate_class,
            (job.c.state == state_value("available")).label("available"),
        )
        .cte("amended")
    )
    effects = [*register(select(amended).where(amended.c.available).subquery("fresh"))]
    if debounce:
        tags = select(
            func.jsonb_array_elements_text(cast(_given("tags", Text), JSONB)).label("tag")
        ).cte("tags")
        effects.append(
            delete(job_tag)
            .where(
                job_tag.c.job_id.in_(select(amended.c.id)),
                job_tag.c.tag.not_in(select(tags.c.tag)),
            )
            .cte("untagged")
        )
        effects.append(
            insert(job_tag)
            .from_select(
                ["job_id", "tag"],
                select(amended.c.id, tags.c.tag).join_from(amended, tags, always()),
            )
            .on_conflict_do_nothing()
            .cte("tagged")
        )
    return select(amended.c.id).add_cte(*effects)
