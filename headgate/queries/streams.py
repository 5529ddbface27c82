"""Streams of jobs: what one index delivers in the order of the row ids, newest first.

A stream has equality on its leading columns and a row bound on the last one before the id, so that
no other index could deliver its order and the planner has no choice: with plain equality it would
rather walk the whole primary key backwards. The second, plain bound is what ends the stream, as an
index only stops at the first column of a row.

Without a state there is one stream for each, visited one after the other and merged by the reader.
"""

from collections.abc import Iterable
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    FromClause,
    Lateral,
    Select,
    TableValuedAlias,
    Text,
    bindparam,
    column,
    func,
    select,
    tuple_,
)
from sqlalchemy.dialects.postgresql import ARRAY

from headgate.model.lifecycle import State
from headgate.queries.literals import always, number
from headgate.queries.states import each_state, state_value
from headgate.tables import job, job_tag

UNCOMPLETED: Final = tuple(state for state in State if state is not State.COMPLETED)

BEFORE: Final = bindparam("before_id", type_=BigInteger)
"""The cursor: only what is older is delivered."""


def wanted(name: str, kind: Any = None) -> Any:
    """The value that a filter asks for."""
    return bindparam(f"wanted_{name}", type_=kind or Text)


def rows_before(rows: Any, state: ColumnElement[Any]) -> tuple[ColumnElement[bool], ...]:
    """The rows of one state before the cursor."""
    return (tuple_(rows.c.state, rows.c.id) < tuple_(state, BEFORE), rows.c.state >= state)


def newest_first(rows: Any) -> tuple[ColumnElement[Any], ...]:
    return rows.c.state.desc(), rows.c.id.desc()


def of_state(
    state: str, *leading: ColumnElement[bool], columns: Iterable[Any] = (job.c.id,)
) -> Select[Any]:
    """The stream of one state; `leading` fixes the columns of the index before it."""
    # The index by state alone has this condition, so that it is never taken for another one.
    index = leading or (job.c.id > number(0),)
    return (
        select(*columns)
        .where(*index, *rows_before(job, state_value(state)))
        .order_by(*newest_first(job))
    )


def of_all(columns: Iterable[Any] = (job.c.id,)) -> Select[Any]:
    """The stream of all jobs."""
    return select(*columns).where(job.c.id < BEFORE).order_by(job.c.id.desc())


def of_each(
    source: FromClause, leading: Iterable[ColumnElement[bool]], size: ColumnElement[int]
) -> Lateral:
    """Up to `size` of each stream: beside every row of `source`, which has a `state`."""
    return (
        select(job.c.id)
        .where(*leading, *rows_before(job, source.c.state))
        .order_by(*newest_first(job))
        .limit(size)
        .lateral("stream")
    )


def by_state(
    driver: str, size: ColumnElement[int], states: Iterable[str] = tuple(State)
) -> Select[Any]:
    """Up to `size` of the streams of each state, as (stream, id); `driver` is what is fixed."""
    state = each_state(states)
    leading = [job.c[driver] == wanted(driver)]
    if driver == "fingerprint":
        # What the index is limited to has to be said.
        leading.append(job.c.state != state_value(State.COMPLETED))
    stream = of_each(state, leading, size)
    return select(state.c.state.label("stream"), stream.c.id).select_from(
        state.join(stream, always())
    )


def by_kinds(size: ColumnElement[int], states: Iterable[str]) -> Select[Any]:
    """Up to `size` of the streams of each state and each of `wanted_kinds`, as (stream, id)."""
    state = each_state(states)
    kind = _each(wanted("kinds", ARRAY(Text)), "kind")
    pair = select(kind.c.kind, state.c.state, func.row_number().over().label("stream")).select_from(
        kind.join(state, always())
    )
    pairs = pair.subquery("pair")
    stream = of_each(pairs, [job.c.kind == pairs.c.kind], size)
    return select(pairs.c.stream, stream.c.id).select_from(pairs.join(stream, always()))


def of_tag(tag: ColumnElement[str]) -> Select[Any]:
    """The stream of the jobs with a tag."""
    return (
        select(job_tag.c.job_id.label("id"))
        .where(tuple_(job_tag.c.tag, job_tag.c.job_id) < tuple_(tag, BEFORE), job_tag.c.tag >= tag)
        .order_by(job_tag.c.tag.desc(), job_tag.c.job_id.desc())
    )


def by_tags(size: ColumnElement[int]) -> Select[Any]:
    """Up to `size` of the streams of each of `wanted_tags_any`, as (stream, id)."""
    tag = _each(wanted("tags_any", ARRAY(Text)), "tag")
    stream = of_tag(tag.c.tag).limit(size).correlate(tag).lateral("stream")
    return select(tag.c.tag.label("stream"), stream.c.id).select_from(tag.join(stream, always()))


def _each(values: ColumnElement[Any], name: str) -> TableValuedAlias:
    return func.unnest(values).table_valued(column(name, Text)).render_derived(name=f"each_{name}")
