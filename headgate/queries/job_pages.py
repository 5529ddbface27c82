"""A page of a search: the jobs of one stream that meet every other condition, newest first.

What no index serves looks at no more than a window of the stream; the statement then also says
where the window ended, so that the next one goes on there. Both come from one snapshot: nothing is
lost or listed twice in between.
"""

from functools import cache
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    CTE,
    ColumnElement,
    Executable,
    FromClause,
    Integer,
    Select,
    and_,
    any_,
    bindparam,
    case,
    func,
    literal_column,
    select,
    true,
    union_all,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.types import Text

from headgate.model.lifecycle import State
from headgate.queries.jobs import job_columns
from headgate.queries.literals import number
from headgate.queries.shapes import materialized
from headgate.queries.states import state_value
from headgate.queries.streams import (
    BEFORE,
    UNCOMPLETED,
    by_kinds,
    by_state,
    by_tags,
    of_all,
    of_state,
    of_tag,
    wanted,
)
from headgate.tables import job, job_tag

WINDOW: Final = 5_000
"""How many entries of a single stream one statement looks at."""

_PAGE_SIZE: Final[ColumnElement[int]] = bindparam("page_size", type_=Integer)
_STREAM_SIZE: Final[ColumnElement[int]] = bindparam("stream_size", type_=Integer)
_EQUAL: Final = ("queue", "kind", "partition_key", "rate_class", "fingerprint")


class _Found(NamedTuple):
    """The rows of a page, and where the search stopped if the page stays short."""

    page: CTE
    stopped_at: ColumnElement[Any]


def is_merged(driver: str | None, state: str | None) -> bool:
    """Whether the driver has several streams, of which `stream_size` entries each are read."""
    if driver in {"kinds", "tags_any"}:
        return True
    return state is None and driver in {"kind", "queue", "fingerprint"}


@cache
def page_of_jobs(driver: str | None, state: str | None, others: frozenset[str]) -> Executable:
    """Up to `page_size` job rows before `before_id`, each with `resume_id`; a single row without a
    job when none was found.

    `driver` is the filter whose streams are read: one of id, tag (that is `wanted_tag`), tags_any,
    fingerprint, kind, kinds, queue, or None for that of the state or of all jobs. `others` are the
    filters to be checked job by job. `resume_id` is where the search stopped; NULL when it was
    complete or the page is full.
    """
    if driver == "id":
        found = _one(state, others)
    elif is_merged(driver, state):
        found = _merged(str(driver), state, others)
    elif driver == "tag":
        found = _tagged(state, others)
    else:
        found = _single(driver, state, others)
    returned = select(func.count()).select_from(found.page).scalar_subquery()
    resume = case((returned < _PAGE_SIZE, found.stopped_at)).label("resume_id")
    search = select(resume).cte("search")
    return (
        select(search.c.resume_id, found.page)
        .select_from(search.outerjoin(found.page, true()))
        .order_by(found.page.c.row_id.desc())
    )


def _nowhere() -> ColumnElement[Any]:
    return literal_column("NULL::bigint")


def _one(state: str | None, others: frozenset[str]) -> _Found:
    page = select(*job_columns(job)).where(
        job.c.ulid == wanted("id"), job.c.id < BEFORE, *_conditions(job, state, others)
    )
    return _Found(materialized(page, "page"), _nowhere())


def _single(driver: str | None, state: str | None, others: frozenset[str]) -> _Found:
    """One index is read in its order, with the rows that it leads to."""
    searched = bool(others)
    size = number(WINDOW) if searched else _PAGE_SIZE

    def stream(*columns: Any) -> Select[Any]:
        chosen = columns or (job.c.id,)
        return of_all(chosen) if state is None else of_state(state, driver, chosen)

    row = stream(*job.columns).limit(size).subquery("row")
    order = [row.c.id.desc()] if state is None else [row.c.state.desc(), row.c.id.desc()]
    page = (
        select(*job_columns(row))
        .where(*_conditions(row, None, others))
        .order_by(*order)
        .limit(_PAGE_SIZE)
    )
    stopped_at = _end_of(stream()) if searched else _nowhere()
    return _Found(materialized(page, "page"), stopped_at)


def _tagged(state: str | None, others: frozenset[str]) -> _Found:
    """The jobs of one tag are looked up one by one, once their other tags are known to match."""
    searched = bool(others) or state is not None
    size = number(WINDOW) if searched else _PAGE_SIZE
    stream = of_tag(wanted("tag"))
    entry = stream.add_columns(job_tag.c.tag).limit(size).subquery("entry")
    of_tags = others & {"tags_all", "tags_any"}
    tagged = (
        select(entry)
        .where(*_conditions(entry, None, of_tags))
        .order_by(entry.c.tag.desc(), entry.c.id.desc())
        .offset(number(0))
        .subquery("tagged")
    )
    page = _looked_up(tagged, state, others - of_tags).order_by(
        tagged.c.tag.desc(), tagged.c.id.desc()
    )
    stopped_at = _end_of(stream) if searched else _nowhere()
    return _Found(materialized(page.limit(_PAGE_SIZE), "page"), stopped_at)


def _merged(driver: str, state: str | None, others: frozenset[str]) -> _Found:
    """The newest of several streams, down to where the first of them was left off."""
    cuts: list[ColumnElement[Any]] = []
    if driver == "tags_any":
        read = by_tags(_STREAM_SIZE)
    elif driver == "kinds":
        read = by_kinds(_STREAM_SIZE, tuple(State) if state is None else (state,))
        state = None
    elif driver == "fingerprint":
        read = union_all(  # type: ignore[assignment]  # a compound select is used like a select
            by_state(driver, _STREAM_SIZE, UNCOMPLETED), _completed()
        )
        cuts.append(_end_of(of_all()))
    else:
        read = by_state(driver, _STREAM_SIZE)
    entries = materialized(read, "entries")
    left_off = (
        select(func.min(entries.c.id).label("id"))
        .group_by(entries.c.stream)
        .having(func.count() >= _STREAM_SIZE)
        .subquery("left_off")
    )
    cuts.append(select(func.max(left_off.c.id)).scalar_subquery())
    cut = materialized(select(func.greatest(*cuts).label("id")), "cut")
    lowest = select(func.coalesce(cut.c.id, number(0))).scalar_subquery()

    def newest() -> Select[Any]:
        return (
            select(entries.c.id)
            .where(entries.c.id >= lowest)
            .distinct()
            .order_by(entries.c.id.desc())
            .limit(_STREAM_SIZE)
        )

    candidate = newest().subquery("candidate")
    page = _looked_up(candidate, state, others).order_by(candidate.c.id.desc()).limit(_PAGE_SIZE)
    counted = newest().subquery("counted")
    end = (
        select(case((func.count() >= _STREAM_SIZE, func.min(counted.c.id))))
        .select_from(counted)
        .scalar_subquery()
    )
    stopped_at = func.greatest(select(cut.c.id).scalar_subquery(), end)
    return _Found(materialized(page, "page"), stopped_at)


def _completed() -> Select[Any]:
    """The completed jobs of the fingerprint in a window of all jobs; no index has them."""
    row = of_all((job.c.id, job.c.state, job.c.fingerprint)).limit(number(WINDOW)).subquery("row")
    completed = state_value(State.COMPLETED)
    return select(row.c.state.label("stream"), row.c.id).where(
        row.c.fingerprint == wanted("fingerprint"), row.c.state == completed
    )


def _end_of(stream: Select[Any]) -> ColumnElement[Any]:
    """The last id of a window of the stream; NULL when the stream ends before."""
    return stream.offset(number(WINDOW - 1)).limit(number(1)).scalar_subquery()


def _looked_up(source: FromClause, state: str | None, others: frozenset[str]) -> Select[Any]:
    """The rows of these ids, by the primary key and in the order of the source."""
    row = (
        select(job)
        .where(job.c.id == source.c.id)
        .offset(number(0))
        .correlate(source)
        .lateral("row")
    )
    return (
        select(*job_columns(row))
        .select_from(source.join(row, true()))
        .where(*_conditions(row, state, others))
    )


def _conditions(row: Any, state: str | None, others: frozenset[str]) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = [
        row.c[name] == wanted(name) for name in _EQUAL if name in others
    ]
    if state is not None:
        conditions.append(row.c.state == state_value(state))
    if "priority" in others:
        conditions.append(row.c.priority == wanted("priority", Integer))
    if "kind_prefix" in others:
        conditions.append(func.starts_with(row.c.kind, wanted("kind_prefix")))
    if others & {"tags_all", "tags_any"}:
        conditions.append(_has_tags(row, others))
    return conditions


def _has_tags(row: Any, others: frozenset[str]) -> ColumnElement[bool]:
    """Whether a job has every tag of `tags_all`, all different, and one of `tags_any`.

    Asked job by job, and once for all tags: an EXISTS could become a join that reads every job of a
    common tag, and looking for each tag by itself is a descent for each.
    """
    own = (
        select(job_tag.c.tag)
        .where(job_tag.c.job_id == row.c.id)
        .offset(number(0))
        .correlate(row)
        .subquery("own")
    )

    def matching(tags: Any) -> ColumnElement[int]:
        return func.count().filter(own.c.tag == any_(tags))

    tests: list[ColumnElement[bool]] = []
    if "tags_all" in others:
        tags = wanted("tags_all", ARRAY(Text))
        tests.append(matching(tags) == func.cardinality(tags))
    if "tags_any" in others:
        tests.append(matching(wanted("tags_any", ARRAY(Text))) > number(0))
    return select(and_(*tests)).select_from(own).scalar_subquery()
