"""What an operator may do to jobs: one by its id, or a list of ids at once."""

from collections.abc import Sequence
from typing import Any

import msgspec

from headgate.model.actions import (
    ARCHIVE,
    ActionFailure,
    ActionReport,
    archive_refused,
    judge_actions,
    reason_of,
)
from headgate.model.errors import DuplicateJob, InvalidRequest, NotFound, StoreError
from headgate.model.identity import fingerprint
from headgate.model.lifecycle import OPERATOR_ACTIONS, OperatorAction, State
from headgate.model.limits import (
    MAX_PAYLOAD_BYTES,
    check_characters,
    check_count,
    check_milliseconds,
)
from headgate.model.operators import refusal
from headgate.queries.operators import (
    cancel_jobs,
    delete_jobs,
    edit_payload,
    lock_jobs,
    reschedule_job,
)
from headgate.store.database import Executor, Row, Session
from headgate.store.notifier import Notifier
from headgate.store.revival import make_available


class Control:
    """Operator actions. Each is one transaction, in which the state of the job is looked up anew.

    Every method raises `NotFound` for a job that does not exist, `InvalidRequest` in the words of
    its action for one whose state it is not defined from, and `StoreUnavailable`. Nothing was
    changed then.
    """

    def __init__(self, database: Executor, notifier: Notifier) -> None:
        self._database = database
        self._notifier = notifier

    async def promote(self, job_id: str) -> None:
        """Makes a pending job available now."""
        await self._act_on_one(OperatorAction.PROMOTE, job_id)

    async def retry(self, job_id: str) -> None:
        """Makes an archived, cancelled or undecodable job available now; its counters stay.

        Raises `DuplicateJob` naming the job that took its unique key meanwhile.
        """
        await self._act_on_one(OperatorAction.RETRY, job_id)

    async def cancel(self, job_id: str) -> None:
        """Cancels a job that has not ended. A running one loses its lease at once."""
        await self._act_on_one(OperatorAction.CANCEL, job_id)

    async def delete(self, job_id: str) -> None:
        """Deletes a job that does not run."""
        await self._act_on_one(OperatorAction.DELETE, job_id)

    async def reschedule(self, job_id: str, scheduled_at_ms: int) -> None:
        """Moves the due time of a scheduled or retryable job; its state stays."""
        check_milliseconds("scheduled_at_ms", scheduled_at_ms)

        async def work(session: Session) -> None:
            row = await _lock_one(session, OperatorAction.RESCHEDULE, job_id)
            await session.fetch(
                reschedule_job(), {"row_id": row["row_id"], "due_at_ms": scheduled_at_ms}
            )

        await self._database.transact(work)

    async def edit_payload(
        self, job_id: str, payload: bytes, *, schema_version: int | None = None
    ) -> None:
        """Replaces the payload of a job that does not run; its fingerprint follows.

        Without a `schema_version` the job keeps its own.
        """
        if len(payload) > MAX_PAYLOAD_BYTES:
            raise InvalidRequest(f"payload must be at most {MAX_PAYLOAD_BYTES} bytes")
        if schema_version is not None:
            check_count("schema_version", schema_version)

        async def work(session: Session) -> None:
            row = await _lock_one(session, OperatorAction.EDIT_PAYLOAD, job_id)
            await session.fetch(
                edit_payload(),
                {
                    "row_id": row["row_id"],
                    "new_payload": payload,
                    "new_fingerprint": fingerprint(row["kind"], payload),
                    "new_schema_version": 1 if schema_version == 0 else schema_version,
                },
            )

        await self._database.transact(work)

    async def act(self, action: str, job_ids: Sequence[str]) -> ActionReport:
        """Retries, cancels or deletes up to 1,000 jobs; what became of each, in the given order.

        A job that cannot be changed fails alone, with the words that its single action would have.
        Raises `InvalidRequest` for a list that is too long or an unknown action. An outage fails
        the whole list, of which nothing was done then.
        """
        judge_actions(action, job_ids)
        if action == ARCHIVE:
            return archive_refused(job_ids)
        if not job_ids:
            return ActionReport(succeeded=[], failed=[])
        wanted = OperatorAction(action)
        failures = await self._change(wanted, job_ids)
        report = ActionReport(succeeded=[], failed=[])
        for job_id in job_ids:
            failure = failures.get(job_id)
            if failure is None:
                report.succeeded.append(job_id)
                failures[job_id] = _repeated(wanted, job_id)
            else:
                report.failed.append(ActionFailure(job_id, reason_of(failure)))
        return report

    async def _act_on_one(self, action: OperatorAction, job_id: str) -> None:
        check_characters("id", job_id)
        failures = await self._change(action, [job_id])
        if failures:
            raise failures[job_id]

    async def _change(
        self, action: OperatorAction, job_ids: Sequence[str]
    ) -> dict[str, StoreError]:
        """Why the action failed for some of the jobs, by id."""
        changes = await self._database.transact(
            lambda session: _change(session, action, list(dict.fromkeys(job_ids)))
        )
        self._notifier.wake(changes.queues)
        return changes.failures


class _Changes(msgspec.Struct):
    """What an action did: why it failed for some jobs, and the queues that have new work."""

    failures: dict[str, StoreError] = {}
    queues: set[str] = set()


async def _change(session: Session, action: OperatorAction, job_ids: list[str]) -> _Changes:
    """Applies `action` to each of the jobs from whose state it is defined."""
    changes = _Changes()
    rows = await session.fetch(lock_jobs(), {"job_id_array": job_ids})
    found = {row["job_id"]: row for row in rows}
    chosen: dict[int, str] = {}
    for job_id in job_ids:
        row = found.get(job_id)
        failure = _objection(action, job_id, row)
        if failure is not None:
            changes.failures[job_id] = failure
        elif row is not None:
            chosen[row["row_id"]] = job_id
    if not chosen:
        return changes
    parameters: dict[str, Any] = {"row_id_array": list(chosen)}
    if action is OperatorAction.CANCEL:
        await session.fetch(cancel_jobs(), parameters)
    elif action is OperatorAction.DELETE:
        await session.fetch(delete_jobs(), parameters)
    else:
        revival = await make_available(session, action, list(chosen))
        changes.queues.update(revival.queues.values())
        for row_id, holder in revival.holders.items():
            changes.failures[chosen[row_id]] = DuplicateJob(holder)
    return changes


async def _lock_one(session: Session, action: OperatorAction, job_id: str) -> Row:
    check_characters("id", job_id)
    rows = await session.fetch(lock_jobs(), {"job_id_array": [job_id]})
    failure = _objection(action, job_id, rows[0] if rows else None)
    if failure is not None:
        raise failure
    return rows[0]


def _objection(action: OperatorAction, job_id: str, row: Row | None) -> StoreError | None:
    if row is None:
        return NotFound(f"job {job_id}")
    state: str = row["state"]
    return None if state in OPERATOR_ACTIONS[action] else refusal(action, job_id, state)


_TARGETS = {OperatorAction.RETRY: State.AVAILABLE, OperatorAction.CANCEL: State.CANCELLED}


def _repeated(action: OperatorAction, job_id: str) -> StoreError:
    """What an id is told that stands in the list once more after it succeeded."""
    target = _TARGETS.get(action)
    return NotFound(f"job {job_id}") if target is None else refusal(action, job_id, target)
