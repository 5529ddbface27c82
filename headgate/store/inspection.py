"""Reading without changing anything: jobs by id and by filter."""

from typing import Any, Final

import msgspec

from headgate.model.job import DeadLetters, Job, JobFilter, JobPage, PeriodicOrigin
from headgate.model.limits import MAX_MS, is_storable
from headgate.model.workflow import COORDINATOR_KIND, workflow_id_of
from headgate.queries.dead_letters import count_dead_letters
from headgate.queries.jobs import one_job, probe
from headgate.store.database import Database, Row
from headgate.store.search import search_jobs

MAX_PAGE: Final = 200

_NEWEST: Final = 2**63 - 1

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
        if not is_storable(job_id):
            return None
        rows = await self._database.fetch(one_job(payload=include_payload), {"job_id": job_id})
        if not rows:
            return None
        job = _job(rows[0], payload=include_payload)
        if coordinator := job.id if job.kind == COORDINATOR_KIND else rows[0]["coordinator"]:
            job.workflow_id = workflow_id_of(coordinator)
        return job

    async def jobs(self, where: JobFilter, *, cursor: int | None, limit: int) -> JobPage:
        """A page of the jobs that meet every condition, newest first, before the cursor.

        `limit` is between 1 and 200. A short page with a cursor means that the search stopped at
        its budget and goes on there; without one it is complete.
        """
        found = await search_jobs(self._database, where, cursor, limit)
        return JobPage(
            jobs=[_job(row, payload=False) for row in found.rows],
            next_cursor=None if found.next_cursor is None else str(found.next_cursor),
        )

    async def dead_letters(self, since_ms: int) -> DeadLetters:
        """How many jobs ended archived or undecodable from an instant on."""
        (row,) = await self._database.fetch(
            count_dead_letters(),
            {"since_ms": max(0, min(since_ms, MAX_MS)), "before_id": _NEWEST},
        )
        return DeadLetters(*row)


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
