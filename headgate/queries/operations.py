"""Operations as rows: what is asked, how far it has come, how it ended."""

from functools import cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    Executable,
    Integer,
    Select,
    Text,
    Update,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    select,
    tuple_,
    union_all,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, insert

from headgate.model.operation import STATUSES_OPEN, STATUSES_OVER
from headgate.queries.clock import instant
from headgate.queries.literals import number, word
from headgate.queries.shapes import page_offset, page_size
from headgate.tables import job, job_state, operation

_OPERATION_ID: Final[Any] = bindparam("operation_id", type_=Text)

_ANSWER: Final = (
    operation.c.id,
    operation.c.status,
    operation.c.affected,
    operation.c.total_estimated,
    operation.c.dry_run,
    operation.c.error,
)
"""The fields of `Operation`, in their order."""


def _is_open() -> ColumnElement[bool]:
    return operation.c.status.in_([word(status) for status in STATUSES_OPEN])


def _is_over() -> ColumnElement[bool]:
    return operation.c.status.in_([word(status) for status in STATUSES_OVER])


@cache
def begin_operation(*, named: bool) -> Executable:
    """Writes a new operation; a row (id) comes back unless its id is taken.

    The id is `new_id`; where that is `named` after a queue, the word and the instant go before. The
    operation ends with the newest job there is. A dry run is over before it began.
    """
    new_id: Any = bindparam("new_id", type_=Text)
    dash: ColumnElement[Any] = literal_column("'-'")
    stamped = func.concat(word("qdel"), dash, cast(instant(), Text), dash, new_id)
    dry_run: Any = bindparam("new_dry_run", type_=Boolean)
    now = instant()
    newest = select(func.max(job.c.id)).scalar_subquery()
    return (
        insert(operation)
        .values(
            id=stamped if named else new_id,
            action=bindparam("new_action", type_=Text),
            selector=cast(bindparam("new_selector", type_=Text), JSONB),
            status=case((dry_run, word("completed")), else_=word("pending")),
            dry_run=dry_run,
            created_at_ms=now,
            finished_at_ms=case((dry_run, now), else_=number(0)),
            until_id=func.coalesce(newest, number(0)),
        )
        .on_conflict_do_nothing()
        .returning(operation.c.id)
    )


@cache
def set_estimate() -> Executable:
    """Writes `new_total` down as the estimate; the fields of the answer come back."""
    return (
        update(operation)
        .where(operation.c.id == _OPERATION_ID)
        .values(total_estimated=bindparam("new_total", type_=BigInteger))
        .returning(*_ANSWER)
    )


@cache
def one_operation() -> Select[Any]:
    return select(*_ANSWER).where(operation.c.id == _OPERATION_ID)


@cache
def page_of_operations() -> Select[Any]:
    """A page of the operations as they are listed: unfinished ones, then finished ones, the newest
    of each first.
    """
    listed = (
        *_ANSWER,
        operation.c.action,
        cast(operation.c.selector, Text).label("selector"),
        operation.c.created_at_ms,
        func.nullif(operation.c.finished_at_ms, number(0)).label("finished_at_ms"),
    )
    until = page_size() + page_offset()
    streams = [
        select(*listed, number(rank).label("rank"), since.label("since"))
        .where(condition)
        .order_by(since.desc(), operation.c.id.desc())
        .limit(until)
        .subquery(name)
        for rank, name, condition, since in (
            (0, "unfinished", _is_open(), operation.c.created_at_ms),
            (1, "finished", _is_over(), operation.c.finished_at_ms),
        )
    ]
    found = union_all(*(select(stream) for stream in streams)).subquery("found")
    return (
        select(*(column for column in found.c if column.name not in ("rank", "since")))
        .order_by(found.c.rank, found.c.since.desc(), found.c.id.desc())
        .limit(page_size())
        .offset(page_offset())
    )


@cache
def open_operations() -> Select[Any]:
    """The next `page_size` unfinished operations after (after_ms, after_id), oldest first."""
    place = tuple_(operation.c.created_at_ms, operation.c.id)
    after = tuple_(bindparam("after_ms", type_=BigInteger), bindparam("after_id", type_=Text))
    return (
        select(operation.c.id, operation.c.created_at_ms)
        .where(_is_open(), place > after)
        .order_by(operation.c.created_at_ms, operation.c.id)
        .limit(bindparam("page_size", type_=Integer))
    )


@cache
def take_operation() -> Select[Any]:
    """Locks an unfinished operation to do a batch of it; no row when another process does one."""
    return (
        select(
            operation.c.action,
            cast(operation.c.selector, Text).label("selector"),
            cast(operation.c.cursor_state, Text).label("cursor_state"),
            operation.c.cursor_id,
            operation.c.until_id,
            operation.c.round,
            operation.c.affected_in_round,
            operation.c.skipped,
        )
        .where(
            operation.c.id == _OPERATION_ID,
            _is_open(),
        )
        .with_for_update(skip_locked=True)
    )


@cache
def keep_place() -> Update:
    """Ends a batch of a locked operation: what it did, and where the next one goes on."""
    affected: Any = bindparam("more_affected", type_=BigInteger)
    status: Any = bindparam("new_status", type_=Text)
    finished = status == word("completed")
    return (
        update(operation)
        .where(operation.c.id == _OPERATION_ID)
        .values(
            status=status,
            affected=operation.c.affected + affected,
            clashes=operation.c.clashes + bindparam("more_clashes", type_=BigInteger),
            affected_in_round=bindparam("new_affected_in_round", type_=BigInteger),
            round=bindparam("new_round", type_=Integer),
            cursor_state=cast(bindparam("new_cursor_state", type_=Text), job_state),
            cursor_id=bindparam("new_cursor_id", type_=BigInteger),
            skipped=bindparam("new_skipped", type_=ARRAY(BigInteger)),
            finished_at_ms=case((finished, instant()), else_=number(0)),
        )
    )


@cache
def extend_operation() -> Update:
    """Lets a locked operation reach the newest job that there is by now."""
    newest = select(func.max(job.c.id)).scalar_subquery()
    return (
        update(operation)
        .where(operation.c.id == _OPERATION_ID)
        .values(until_id=func.coalesce(newest, number(0)))
    )


@cache
def end_operation() -> Executable:
    """Ends an unfinished operation early as `new_status`, with an error or NULL.

    The fields of the answer come back, then its action and its selection; no row when it is over.
    """
    return (
        update(operation)
        .where(
            operation.c.id == _OPERATION_ID,
            _is_open(),
        )
        .values(
            status=bindparam("new_status", type_=Text),
            error=bindparam("new_error", type_=Text),
            finished_at_ms=instant(),
        )
        .returning(*_ANSWER, operation.c.action, cast(operation.c.selector, Text))
    )
