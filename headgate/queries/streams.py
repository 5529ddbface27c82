"""Streams of jobs: what one index delivers in the order of the row ids, newest first.

A stream has equality on its leading columns and a row bound on the last one before the id, so that
no other index could deliver its order and the planner has no choice: with plain equality it would
rather walk the whole primary key backwards. The second, plain bound is what ends the stream, as an
index only stops at the first column of a row.

Some filters need several streams, one for each state, kind or tag. Those come as rows (stream, id),
and the reader merges them.
"""

from collections.abc import Iterable
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    FromClause,
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
from headgate.tables import job, job_tag, text_hash

UNCOMPLETED: Final = tuple(state for state in State if state is not State.COMPLETED)

BEFORE: Final = bindparam("before_id", type_=BigInteger)
"""The cursor: only what is older is delivered."""

_IDS: Final = (job.c.id,)


def wanted(name: str, kind: Any = Text) -> Any:
    """The value that a filter asks for."""
    return bindparam(f"wanted_{name}", type_=kind)


def of_all(columns: Iterable[Any] = _IDS) -> Select[Any]:
    """The stream of all jobs."""
    return select(*columns).where(job.c.id < BEFORE).order_by(job.c.id.desc())


def of_state(state: str, driver: str | None, columns: Iterable[Any] = _IDS) -> Select[Any]:
    """The stream of the jobs of a state whose column `driver` is as wanted."""
    return _of(state_value(state), leading(driver), columns)


def of_tag(tag: ColumnElement[str]) -> Select[Any]:
    """The stream of the jobs with a tag."""
    return (
        select(job_tag.c.job_id.label("id"))
        .where(tuple_(job_tag.c.tag, job_tag.c.job_id) < tuple_(tag, BEFORE), job_tag.c.tag >= tag)
        .order_by(job_tag.c.tag.desc(), job_tag.c.job_id.desc())
    )


def by_state(
    driver: str, size: ColumnElement[int], states: Iterable[str] = tuple(State)
) -> Select[Any]:
    """Up to `size` of the stream of each state, where the column `driver` is as wanted."""
    state = each_state(states)
    stream = _beside(state, leading(driver), size)
    return select(state.c.state.label("stream"), stream.c.id).select_from(
        state.join(stream, always())
    )


def by_kinds(size: ColumnElement[int], states: Iterable[str]) -> Select[Any]:
    """Up to `size` of the stream of each of these states and each of `wanted_kinds`."""
    state = each_state(states)
    kind = _each(wanted("kinds", ARRAY(Text)), "kind")
    number = func.row_number().over().label("stream")
    pair = (
        select(kind.c.kind, state.c.state, number)
        .select_from(kind.join(state, always()))
        .subquery("pair")
    )
    stream = _beside(pair, leading("kind", pair.c.kind), size)
    return select(pair.c.stream, stream.c.id).select_from(pair.join(stream, always()))


def by_tags(size: ColumnElement[int]) -> Select[Any]:
    """Up to `size` of the stream of each of `wanted_tags_any`; a job may be in several."""
    tag = _each(wanted("tags_any", ARRAY(Text)), "tag")
    stream = of_tag(tag.c.tag).limit(size).correlate(tag).lateral("stream")
    return select(tag.c.tag.label("stream"), stream.c.id).select_from(tag.join(stream, always()))


def leading(
    driver: str | None, value: ColumnElement[str] | None = None
) -> list[ColumnElement[bool]]:
    """That the column `driver` of a job has a value, `wanted_{driver}` by default, in the words of
    the one index that begins with it; without a driver those of the index by state.
    """
    if driver is None:
        # Always true; without it no other index can be taken for the one that says it.
        return [job.c.id > number(0)]
    if value is None:
        value = wanted(driver)
    conditions = [job.c[driver] == value]
    if driver == "fingerprint":
        conditions.append(text_hash(job.c.fingerprint) == text_hash(value))
        conditions.append(job.c.state != state_value(State.COMPLETED))
    return conditions


def _of(
    state: ColumnElement[Any], conditions: Iterable[ColumnElement[bool]], columns: Iterable[Any]
) -> Select[Any]:
    return (
        select(*columns)
        .where(
            *conditions,
            tuple_(job.c.state, job.c.id) < tuple_(state, BEFORE),
            job.c.state >= state,
        )
        .order_by(job.c.state.desc(), job.c.id.desc())
    )


def _beside(
    source: FromClause, conditions: Iterable[ColumnElement[bool]], size: ColumnElement[int]
) -> FromClause:
    stream = _of(source.c.state, conditions, _IDS).limit(size)
    return stream.correlate(source).lateral("stream")


def _each(values: ColumnElement[Any], name: str) -> TableValuedAlias:
    return func.unnest(values).table_valued(column(name, Text)).render_derived(name=f"each_{name}")
