"""Reading without changing anything: jobs by id and by filter."""

import time
from typing import Any, Final

import msgspec

from headgate.model.job import Job, JobFilter, JobPage, PeriodicOrigin
from headgate.model.lifecycle import State
from headgate.queries.jobs import WINDOW, one_job, page_of_jobs, probe
from headgate.store.database import Database, Row

MAX_PAGE: Final = 200
_NEWEST: Final = 2**63 - 1
# One page may look at this many entries of its stream, or for this long, before it is cut short.
_SEARCH_BUDGET: Final = 50_000
_SEARCH_SECONDS: Final = 0.2

_STATES: Final = frozenset(state.value for state in State)

_decode_errors: Final = msgspec.json.Decoder(list[dict[str, Any]]).decode
_decode_headers: Final = msgspec.json.Decoder(dict[str, str]).decode


class Inspection:
    """Bounded reads, whatever the tables hold."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def ping(self) -> None:
        """Proves with one point read that the store answers. Raises `StoreError`."""
        await self._database.fetch(probe())

    async def job(self, job_id: str, *, include_payload: bool = False) -> Job | None:
        """The job of this id, or None."""
        if not _storable(job_id):
            return None
        rows = await self._database.fetch(one_job(payload=include_payload), {"job_id": job_id})
        return _job(rows[0], payload=include_payload) if rows else None

    async def jobs(self, where: JobFilter, *, cursor: int | None, limit: int) -> JobPage:
        """A page of the jobs that meet every condition, newest first, before the cursor.

        `limit` is between 1 and 200. A short page with a cursor means that the search stopped at
        its budget and goes on there; without one it is complete.
        """
        before = _NEWEST if cursor is None else min(cursor, _NEWEST)
        conditions = {
            name: value
            for name in JobFilter.__struct_fields__
            if (value := getattr(where, name)) not in (None, ()) and name != "state"
        }
        known = where.state is None or where.state in _STATES
        if before <= 0 or not known or not _storable(*_texts(conditions.values())):
            return JobPage(jobs=[], next_cursor=None)
        parameters = {f"wanted_{name}": _parameter(value) for name, value in conditions.items()}
        if "tags_all" in conditions:
            parameters["wanted_tag"] = conditions["tags_all"][0]
        if conditions.get("priority") is not None and not _fits_integer(conditions["priority"]):
            return JobPage(jobs=[], next_cursor=None)
        statement = page_of_jobs(frozenset(conditions), where.state)
        found: list[Job] = []
        until = time.monotonic() + _SEARCH_SECONDS
        for _ in range(_SEARCH_BUDGET // WINDOW):
            rows = await self._database.fetch(
                statement,
                {**parameters, "before_id": before, "page_size": limit - len(found)},
            )
            page = [row for row in rows if row["row_id"] is not None]
            found += [_job(row, payload=False) for row in page]
            if len(found) == limit:
                return JobPage(jobs=found, next_cursor=str(page[-1]["row_id"]))
            resume = rows[0]["resume_id"]
            if resume is None:
                return JobPage(jobs=found, next_cursor=None)
            before = resume
            if time.monotonic() > until:
                break
        return JobPage(jobs=found, next_cursor=str(before))


def _job(row: Row, *, payload: bool) -> Job:
    errors: str = row["errors"]
    schedule_id: str = row["periodic_schedule_id"]
    job = Job(
        id=row["id"],
        kind=row["kind"],
        queue=row["queue"],
        state=row["state"],
        schema_version=row["schema_version"],
        priority=row["priority"],
        attempt=row["attempt"],
        crash_attempt=row["crash_attempt"],
        orphaned=row["crash_attempt"] > 0,
        max_attempts=row["max_attempts"],
        partition_key=row["partition_key"],
        rate_class=row["rate_class"],
        sticky_worker=row["sticky_worker"],
        weight=row["weight"],
        fingerprint=row["fingerprint"],
        enqueued_at_ms=row["enqueued_at_ms"],
        scheduled_at_ms=row["scheduled_at_ms"],
        claimed_at_ms=row["claimed_at_ms"],
        periodic_origin=PeriodicOrigin(schedule_id, row["periodic_tick_ms"])
        if schedule_id
        else None,
        finalized_at_ms=row["finalized_at_ms"],
        errors=[] if errors == "[]" else _decode_errors(errors),
        tags=row["tags"] or [],
    )
    if payload:
        job.payload = row["payload"]
        job.metadata = _decode_headers(row["headers"])
    return job


def _storable(*texts: str) -> bool:
    """Whether a row can hold these texts at all; what cannot be stored is not found either."""
    return not any("\0" in text or any("\ud800" <= c <= "\udfff" for c in text) for text in texts)


def _texts(values: Any) -> list[str]:
    texts: list[str] = []
    for value in values:
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, tuple):
            texts += value
    return texts


def _parameter(value: Any) -> Any:
    return list(dict.fromkeys(value)) if isinstance(value, tuple) else value


def _fits_integer(value: int) -> bool:
    return -(2**31) <= value < 2**31
