"""Reading jobs: one by its id, and pages of them, newest first.

A page is driven by one stream of ids that an index delivers in order; every other filter looks at
no more than a window of that stream. A stream has equality on its leading columns and a row bound
on (state, id), so that no other index could deliver its order and the planner has no choice: with
`state = ...` it would rather walk the whole primary key backwards.
"""

from functools import cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Executable,
    Integer,
    Select,
    Text,
    any_,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    select,
    true,
    tuple_,
    union_all,
)
from sqlalchemy.dialects.postgresql import ARRAY, aggregate_order_by

from headgate.model.lifecycle import State
from headgate.queries.literals import number, word
from headgate.queries.states import state_value
from headgate.tables import job, job_tag

WINDOW: Final = 5_000
"""How many entries of the stream one statement looks at when a filter has no index."""

# Whose index drives the page; what is mostly the narrower filter comes first.
_DRIVERS: Final = ("kind", "queue")
_EQUALITIES: Final = ("queue", "kind", "partition_key", "rate_class", "fingerprint")


def _columns(source: Any, *, payload: bool) -> list[ColumnElement[Any]]:
    tags = (
        select(func.array_agg(aggregate_order_by(job_tag.c.tag, job_tag.c.tag)))
        .where(job_tag.c.job_id == source.c.id)
        .scalar_subquery()
    )
    names = (
        "kind",
        "queue",
        "schema_version",
        "priority",
        "attempt",
        "crash_attempt",
        "max_attempts",
        "partition_key",
        "rate_class",
        "sticky_worker",
        "weight",
        "fingerprint",
        "enqueued_at_ms",
        "scheduled_at_ms",
        "claimed_at_ms",
        "finalized_at_ms",
        "periodic_schedule_id",
        "periodic_tick_ms",
    )
    columns = [
        source.c.id.label("row_id"),
        source.c.ulid.label("id"),
        cast(source.c.state, Text).label("state"),
        cast(source.c.errors, Text).label("errors"),
        tags.label("tags"),
        *(source.c[name] for name in names),
    ]
    if payload:
        columns += [source.c.payload, cast(source.c.headers, Text).label("headers")]
    return columns


@cache
def one_job(*, payload: bool) -> Executable:
    """The job `job_id`, by its public id."""
    return select(*_columns(job, payload=payload)).where(
        job.c.ulid == bindparam("job_id", type_=Text)
    )


@cache
def probe() -> Executable:
    """A point read that proves that the store answers and its tables are there."""
    return select(job.c.id).where(job.c.ulid == word("__readyz__"))


def _bound(name: str, kind: Any = Text) -> Any:
    return bindparam(f"wanted_{name}", type_=kind)


def _cursor() -> Any:
    return bindparam("before_id", type_=BigInteger)


def _before(state: ColumnElement[Any]) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """Rows of one state before the cursor, in the only form that pins the index."""
    return tuple_(job.c.state, job.c.id) < tuple_(state, _cursor()), job.c.state >= state


def _stream(driver: str | None, state: str | None, size: ColumnElement[int]) -> Select[Any]:
    """Up to `size` ids before the cursor, newest first, from one index."""
    # The condition of the index by state alone; without it the planner cannot take that one for
    # another.
    leading = [job.c.id > number(0)] if driver is None else [job.c[driver] == _bound(driver)]
    if state is not None:
        return (
            select(job.c.id)
            .where(*leading, *_before(state_value(state)))
            .order_by(job.c.state.desc(), job.c.id.desc())
            .limit(size)
        )
    if driver is None:
        return select(job.c.id).where(job.c.id < _cursor()).order_by(job.c.id.desc()).limit(size)
    arms = [
        select(
            select(job.c.id)
            .where(*leading, *_before(state_value(each)))
            .order_by(job.c.state.desc(), job.c.id.desc())
            .limit(size)
            .subquery(f"of_{each}")
        )
        for each in State
    ]
    merged = union_all(*arms).subquery("merged")
    return select(merged.c.id).order_by(merged.c.id.desc()).limit(size)


def _named_stream() -> Select[Any]:
    return select(job.c.id).where(job.c.ulid == _bound("id"), job.c.id < _cursor())


def _tagged_stream(size: ColumnElement[int]) -> Select[Any]:
    tag = _bound("tag")
    return (
        select(job_tag.c.job_id.label("id"))
        .where(
            tuple_(job_tag.c.tag, job_tag.c.job_id) < tuple_(tag, _cursor()),
            job_tag.c.tag >= tag,
        )
        .order_by(job_tag.c.tag.desc(), job_tag.c.job_id.desc())
        .limit(size)
    )


@cache
def page_of_jobs(given: frozenset[str], state: str | None) -> Executable:
    """One page: job rows, each with `resume_id`; a single row without a job when none matched.

    `given` names the filters in use. `resume_id` is where the search stopped when its window ended
    before the page was full; NULL when everything was searched or the page is full.
    """
    size: ColumnElement[int] = bindparam("page_size", type_=Integer)
    named = "id" in given
    tagged = "tags_all" in given and not named
    driver = None if tagged or named else next((name for name in _DRIVERS if name in given), None)
    residual = given - {"id" if named else driver}
    # A stream of its own knows no states; otherwise the state is part of the stream.
    filters_state = state is not None and (tagged or named)
    # A single wanted tag is what the stream delivers; more of them are looked up one by one.
    searches = not named and (bool(residual) or filters_state)
    window: ColumnElement[int] = number(WINDOW) if searches else size

    def build(limit: ColumnElement[int]) -> Select[Any]:
        if named:
            return _named_stream()
        return _tagged_stream(limit) if tagged else _stream(driver, state, limit)

    stream = build(window).subquery("stream")
    rows = job.alias("found")
    page = select(*_columns(rows, payload=False)).select_from(
        stream.join(rows, rows.c.id == stream.c.id)
    )
    page = page.where(*_filters(rows, residual))
    if state is not None and filters_state:
        page = page.where(rows.c.state == state_value(state))
    found = page.order_by(stream.c.id.desc()).limit(size).cte("page")
    resume: ColumnElement[Any] = literal_column("NULL::bigint")
    if searches:
        ends = build(window).subquery("ends")
        last = (
            select(ends.c.id)
            .order_by(ends.c.id.desc())
            .offset(number(WINDOW - 1))
            .limit(number(1))
            .scalar_subquery()
        )
        returned = select(func.count()).select_from(found).scalar_subquery()
        resume = case((returned < size, last))
    end = select(resume.label("resume_id")).cte("search")
    return (
        select(end.c.resume_id, found)
        .select_from(end.outerjoin(found, true()))
        .order_by(found.c.row_id.desc())
    )


def _filters(rows: Any, given: frozenset[str]) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = [
        rows.c[name] == _bound(name) for name in _EQUALITIES if name in given
    ]
    if "priority" in given:
        conditions.append(rows.c.priority == _bound("priority", Integer))
    if "kind_prefix" in given:
        conditions.append(func.starts_with(rows.c.kind, _bound("kind_prefix")))
    if "tags_all" in given:
        wanted = bindparam("wanted_tags_all", type_=ARRAY(Text))
        conditions.append(_matching_tags(rows, wanted) == func.cardinality(wanted))
    if "tags_any" in given:
        wanted = bindparam("wanted_tags_any", type_=ARRAY(Text))
        conditions.append(_matching_tags(rows, wanted) > number(0))
    return conditions


def _matching_tags(rows: Any, wanted: Any) -> ColumnElement[int]:
    """How many of the wanted tags, all different, a job has.

    Counted job by job: an EXISTS could become a join that reads every job of a common tag.
    """
    return (
        select(func.count())
        .select_from(job_tag)
        .where(job_tag.c.job_id == rows.c.id, job_tag.c.tag == any_(wanted))
        .correlate(rows)
        .scalar_subquery()
    )
