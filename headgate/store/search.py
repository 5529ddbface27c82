"""A search among jobs: which stream to follow, and window after window until the page is full."""

import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.model.job import JobFilter
from headgate.model.lifecycle import State
from headgate.model.limits import MAX_INT32, MAX_TAGS, MIN_INT32, is_storable
from headgate.queries.job_pages import WINDOW, is_merged, page_of_jobs
from headgate.queries.job_search import MAX_KINDS, PROBE, kinds_with_prefix, stream_sizes
from headgate.store.database import Executor, Row

_NEWEST: Final = 2**63 - 1

# How many entries of each of several streams one statement reads to search them, and of all of
# them together when there are many.
_MERGED_WINDOW: Final = 2_000
_MERGED_ENTRIES: Final = 20_000

_PROBED_TAGS: Final = 8

# One page may look at this many entries of its streams, or for this long, before it is cut short.
_SEARCH_BUDGET: Final = 50_000
_SEARCH_SECONDS: Final = 0.2

_STATES: Final = frozenset(state.value for state in State)


class Found(msgspec.Struct, frozen=True):
    """The rows of a page, and where the next page goes on; None when there is nothing left."""

    rows: list[Row]
    next_cursor: int | None = None


class _Stream(msgspec.Struct, frozen=True):
    """What a search follows; `tag` is the one of a driver `tag`."""

    driver: str | None
    tag: str = ""


async def search_jobs(
    database: Executor, where: JobFilter, cursor: int | None, limit: int
) -> Found:
    """Up to `limit` jobs before the cursor that meet every condition, newest first.

    A short page with a cursor means that the search stopped at its budget and goes on there.
    """
    before = _NEWEST if cursor is None else min(cursor, _NEWEST)
    wanted = _conditions(where)
    if wanted is None or before <= 0:
        return Found([])
    kinds: list[str] = []
    if "kind_prefix" in wanted:
        parameters = {"wanted_kind_prefix": wanted["kind_prefix"]}
        rows = await database.fetch(kinds_with_prefix(), parameters)
        kinds = [row["kind"] for row in rows]
        if not kinds:
            return Found([])
    parameters = {f"wanted_{name}": value for name, value in wanted.items()}
    parameters["wanted_kinds"] = kinds
    drivers = _drivers(wanted, where.state, is_few=0 < len(kinds) <= MAX_KINDS)
    stream = await _shortest(database, drivers, where.state, {**parameters, "before_id": before})
    parameters["wanted_tag"] = stream.tag
    return await _walk(database, stream, where.state, parameters, before, limit)


def _conditions(where: JobFilter) -> dict[str, Any] | None:
    """The conditions by name, without the state; None when no job can meet them."""
    wanted: dict[str, Any] = {
        name: list(dict.fromkeys(value)) if isinstance(value, tuple) else value
        for name in JobFilter.__struct_fields__
        if name != "state" and (value := getattr(where, name)) not in (None, ())
    }
    if where.kind is not None and where.kind_prefix is not None:
        if not where.kind.startswith(where.kind_prefix):
            return None
        del wanted["kind_prefix"]
    if wanted.get("kind_prefix") == "":
        del wanted["kind_prefix"]
    texts = [value for value in wanted.values() if isinstance(value, str)]
    possible = (
        (where.state is None or where.state in _STATES)
        and is_storable(*texts, *where.tags_all, *where.tags_any)
        and MIN_INT32 <= (where.priority or 0) <= MAX_INT32
        and len(wanted.get("tags_all", ())) <= MAX_TAGS
    )
    return wanted if possible else None


def _drivers(wanted: Mapping[str, Any], state: str | None, *, is_few: bool) -> list[_Stream]:
    """The streams that a search could follow, the narrower ones mostly first."""
    if "id" in wanted:
        return [_Stream("id")]
    streams = [_Stream("tag", tag) for tag in wanted.get("tags_all", ())[:_PROBED_TAGS]]
    by_column = [name for name in ("kind", "queue") if name in wanted]
    if is_few:
        by_column.insert(0, "kinds")
    if "fingerprint" in wanted and state not in (None, State.COMPLETED):
        by_column.insert(0, "fingerprint")
    streams += [_Stream(name) for name in by_column]
    if 0 < len(wanted.get("tags_any", ())) <= MAX_TAGS:
        streams.append(_Stream("tags_any"))
    if state is not None and not by_column:
        streams.append(_Stream("state"))
    if not streams and "fingerprint" in wanted:
        # Completed jobs of a fingerprint have no index, so it is the last resort.
        return [_Stream("fingerprint")]
    return streams or [_Stream(None)]


async def _shortest(
    database: Executor,
    streams: list[_Stream],
    state: str | None,
    parameters: dict[str, Any],
) -> _Stream:
    """The stream with the fewest entries before the cursor; of long ones the first."""
    chosen = streams[0]
    if len(streams) > 1:
        drivers = tuple(dict.fromkeys(str(stream.driver) for stream in streams))
        parameters["wanted_tags"] = [stream.tag for stream in streams if stream.driver == "tag"]
        rows = await database.fetch(stream_sizes(drivers, state), parameters)
        sizes = {_Stream(row["driver"], row["tag"] or ""): row["size"] for row in rows}
        chosen = min(streams, key=lambda stream: min(sizes[stream], PROBE))
    return _Stream(None) if chosen.driver == "state" else chosen


async def _walk(
    database: Executor,
    stream: _Stream,
    state: str | None,
    parameters: dict[str, Any],
    before: int,
    limit: int,
) -> Found:
    others = frozenset(
        name.removeprefix("wanted_")
        for name in parameters
        if name not in {"wanted_kinds", "wanted_tag"} and not _is_met(name, stream, parameters)
    )
    merged = is_merged(stream.driver, state)
    searched = bool(others) or (state is not None and stream.driver in {"tag", "tags_any"})
    statement = page_of_jobs(stream.driver, state, others)
    streams = len(parameters["wanted_kinds"]) if stream.driver == "kinds" else 1
    window = min(_MERGED_WINDOW, _MERGED_ENTRIES // streams)
    found: list[Row] = []
    budget = _SEARCH_BUDGET
    until = time.monotonic() + _SEARCH_SECONDS
    while budget > 0:
        left = limit - len(found)
        size = max(left, window) if searched else left
        rows = await database.fetch(
            statement,
            {**parameters, "before_id": before, "page_size": left, "stream_size": size},
        )
        page = [row for row in rows if row["row_id"] is not None]
        found += page
        if len(found) == limit:
            return Found(found, page[-1]["row_id"])
        before = rows[0]["resume_id"]
        if before is None:
            return Found(found)
        budget -= size if merged and stream.driver != "fingerprint" else WINDOW
        if time.monotonic() > until:
            break
    return Found(found, before)


def _is_met(name: str, stream: _Stream, parameters: Mapping[str, Any]) -> bool:
    """Whether what the stream delivers meets this condition by itself."""
    if stream.driver == "tag":
        return name == "wanted_tags_all" and len(parameters[name]) == 1
    driver = "kind_prefix" if stream.driver == "kinds" else stream.driver
    return name == f"wanted_{driver}"
