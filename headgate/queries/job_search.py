"""What a search asks before it reads a page: which kinds a prefix means, which stream is short."""

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Executable,
    FromClause,
    Select,
    Text,
    cast,
    column,
    func,
    literal_column,
    select,
    union_all,
)
from sqlalchemy.dialects.postgresql import ARRAY

from headgate.model.lifecycle import State
from headgate.queries.literals import always, number, word
from headgate.queries.streams import by_kinds, by_state, by_tags, of_state, of_tag, wanted
from headgate.tables import job

MAX_KINDS: Final = 100
"""How many kinds with a prefix are searched one by one."""

PROBE: Final = 1_000
"""How far a stream is followed to see whether it is short."""


@cache
def kinds_with_prefix() -> Executable:
    """The kinds of any jobs that begin with `wanted_kind_prefix`, up to one more than `MAX_KINDS`.

    Each is one probe of the index, however many jobs it has.
    """
    prefix = wanted("kind_prefix")

    def smallest(bound: ColumnElement[bool]) -> Select[Any]:
        return select(job.c.kind).where(bound).order_by(job.c.kind).limit(number(1))

    first = smallest(job.c.kind >= prefix).subquery("first")
    found = select(first.c.kind, number(1).label("place")).cte("found", recursive=True)
    following = smallest(job.c.kind > found.c.kind).correlate(found).lateral("following")
    found = found.union_all(
        select(following.c.kind, found.c.place + number(1))
        .select_from(found.join(following, always()))
        .where(func.starts_with(found.c.kind, prefix), found.c.place <= number(MAX_KINDS))
    )
    return select(found.c.kind).where(func.starts_with(found.c.kind, prefix))


@cache
def stream_sizes(drivers: tuple[str, ...], state: str | None) -> Executable:
    """A row (driver, tag, size) for each: how many entries its stream has before the cursor.

    `PROBE` means that many or more. Of the driver `tag` there is a row for each of `wanted_tags`.
    """
    arms = [
        _tag_sizes()
        if driver == "tag"
        else select(
            cast(word(driver), Text).label("driver"),
            cast(literal_column("NULL"), Text).label("tag"),
            _counted(_entries(driver, state)).label("size"),
        )
        for driver in drivers
    ]
    sizes = union_all(*arms).subquery("sizes")
    return select(sizes.c.driver, sizes.c.tag, sizes.c.size)


def _entries(driver: str, state: str | None) -> Select[Any]:
    size = number(PROBE)
    if driver == "tags_any":
        return by_tags(size)
    if driver == "kinds":
        return by_kinds(size, _states(state))
    if driver == "state":
        assert state is not None
        return of_state(state, None).limit(size)
    return by_state(driver, size) if state is None else of_state(state, driver).limit(size)


def _states(state: str | None) -> Sequence[str]:
    return tuple(State) if state is None else (state,)


def _counted(entries: Select[Any]) -> ColumnElement[int]:
    # Several streams are followed one after the other, and no further than needed.
    some = entries.limit(number(PROBE)).subquery("some")
    return select(func.count()).select_from(some).scalar_subquery()


def _tag_sizes() -> Select[Any]:
    tag = (
        func.unnest(wanted("tags", ARRAY(Text)))
        .table_valued(column("tag", Text))
        .render_derived(name="each_tag")
    )
    entry = of_tag(tag.c.tag).limit(number(PROBE)).correlate(tag).lateral("entry")
    size = select(func.count(entry.c.id).label("size")).select_from(entry)
    counted: FromClause = size.correlate(tag).lateral("counted")
    return select(cast(word("tag"), Text).label("driver"), tag.c.tag, counted.c.size).select_from(
        tag.join(counted, always())
    )
