"""Workflows: letting their nodes go in order, and what an operator sees and does of it."""

from collections.abc import Sequence
from typing import Final

import msgspec

from headgate.model.errors import Conflict, DuplicateJob, InvalidRequest, NotFound
from headgate.model.job import JobFilter
from headgate.model.lifecycle import OPERATOR_ACTIONS, OperatorAction
from headgate.model.limits import check_characters, is_storable
from headgate.model.page import check_page_limit
from headgate.model.workflow import (
    COORDINATOR_KIND,
    MISSING,
    WorkflowAdvance,
    WorkflowPage,
    WorkflowSnapshot,
    WorkflowSummary,
    coordinator_id,
    record_fields,
    workflow_id_of,
)
from headgate.model.workflow_fates import Fate, failures, is_live
from headgate.queries.operators import cancel_jobs, lock_jobs
from headgate.queries.workflows import remember
from headgate.store.database import Executor, Session
from headgate.store.notifier import Notifier
from headgate.store.revival import make_available
from headgate.store.search import search_jobs
from headgate.store.workflow_reading import LoadedWorkflow, load, objection, snapshot, summary

_encode: Final = msgspec.json.Encoder().encode
_TO_CHANGE: Final = frozenset({Fate.STOP, Fate.PROMOTE, Fate.REVIVE})


class Workflows:
    """Every method but `page` works on one workflow and reads no more than its jobs.

    All raise `StoreUnavailable`.
    """

    def __init__(self, reads: Executor, writes: Executor, notifier: Notifier) -> None:
        self._reads = reads
        self._writes = writes
        self._notifier = notifier

    async def advance(self, coordinator_job_id: str) -> WorkflowAdvance:
        """Makes available what may run by now, cancels what never can, and tells where it stands.

        May be called by anyone at any time: it is judged anew under the locks of what is changed.
        Raises `NotFound` when there is no such coordinator, and `InvalidRequest` for a plan with a
        circle.
        """
        found = await load(self._writes, coordinator_job_id)
        if found is None:
            raise NotFound(f"workflow {workflow_id_of(coordinator_job_id)}")
        fates = found.fates()
        changing = [node.job_id for node in found.plan.nodes if fates[node.name] in _TO_CHANGE]
        if changing or found.completed() != found.record.completed:
            queues: set[str] = set()

            async def work(session: Session) -> dict[str, Fate]:
                queues.clear()
                return await _advance(session, coordinator_job_id, changing, queues)

            fates = await self._writes.transact(work)
            self._notifier.wake(queues)
        return WorkflowAdvance(live=is_live(fates.values()), failed=failures(fates))

    async def page(self, *, limit: int, cursor: int | None) -> WorkflowPage:
        """A page of workflows, newest first. Raises `InvalidRequest` for a limit out of bounds."""
        check_page_limit(limit)
        where = JobFilter(kind=COORDINATOR_KIND)
        found = await search_jobs(self._reads, where, cursor, limit)
        return WorkflowPage(
            workflows=[WorkflowSummary(**summary(row["id"], row)) for row in found.rows],
            next_cursor=None if found.next_cursor is None else str(found.next_cursor),
        )

    async def workflow(self, workflow_id: str) -> WorkflowSnapshot | None:
        """The workflow with its nodes, or None."""
        if not is_storable(workflow_id):
            return None
        found = await load(self._reads, coordinator_id(workflow_id))
        return None if found is None else snapshot(found)

    async def retry(
        self, workflow_id: str, *, expected_revision: int, nodes: Sequence[str] | None = None
    ) -> None:
        """Makes the nodes that failed available again, or those of them that are named, and lets
        what depends on them follow in its turn.

        Raises `NotFound`, `Conflict` for another revision than is expected, `InvalidRequest` for a
        workflow or a node that has nothing to retry, and `DuplicateJob` naming the job that took
        the unique key of a node meanwhile. Nothing was changed then.
        """

        async def work(session: Session) -> set[str]:
            found = await _lock(session, workflow_id)
            if found.record.revision != expected_revision:
                raise Conflict(
                    f"revision conflict: workflow {workflow_id} has revision"
                    f" {found.record.revision}, not {expected_revision}"
                )
            wanted = _to_retry(found, nodes)
            rows = await session.fetch(lock_jobs(), {"job_id_array": wanted})
            row_ids = [row["row_id"] for row in rows]
            if found.coordinator["state"] in OPERATOR_ACTIONS[OperatorAction.RETRY]:
                row_ids.append(found.coordinator["row_id"])
            revival = await make_available(session, OperatorAction.RETRY, row_ids)
            for holder in revival.holders.values():
                raise DuplicateJob(holder)
            found.record.revision += 1
            found.record.generation += 1
            await _remember(session, found)
            return set(revival.queues.values())

        self._notifier.wake(await self._writes.transact(work))

    async def cancel(self, workflow_id: str) -> None:
        """Cancels the coordinator and every node that has not ended.

        Raises `NotFound`, and `InvalidRequest` when all of them have ended.
        """

        async def work(session: Session) -> None:
            found = await _lock(session, workflow_id)
            ids = [coordinator_id(workflow_id), *(node.job_id for node in found.plan.nodes)]
            rows = await session.fetch(lock_jobs(), {"job_id_array": ids})
            allowed = OPERATOR_ACTIONS[OperatorAction.CANCEL]
            row_ids = [row["row_id"] for row in rows if row["state"] in allowed]
            if not row_ids:
                raise InvalidRequest(f"workflow {workflow_id} has ended")
            await session.fetch(cancel_jobs(), {"row_id_array": row_ids})
            found.record.revision += 1
            await _remember(session, found)

        await self._writes.transact(work)


async def _lock(session: Session, workflow_id: str) -> LoadedWorkflow:
    """The workflow with its coordinator and its nodes locked."""
    check_characters("id", workflow_id)
    job_id = coordinator_id(workflow_id)
    found = await load(session, job_id)
    if found is None:
        raise NotFound(f"workflow {workflow_id}")
    ids = [job_id, *(node.job_id for node in found.plan.nodes)]
    await session.fetch(lock_jobs(), {"job_id_array": ids})
    locked = await load(session, job_id)
    if locked is None:
        raise NotFound(f"workflow {workflow_id}")
    return locked


async def _advance(
    session: Session, coordinator_job_id: str, changing: Sequence[str], queues: set[str]
) -> dict[str, Fate]:
    """Does what is due to those of the jobs `changing` to which it still is, once they are locked.

    All locks are taken by one statement in the order of ids, as acknowledgements take theirs.
    """
    rows = await session.fetch(lock_jobs(), {"job_id_array": [coordinator_job_id, *changing]})
    locked = {row["job_id"]: row["row_id"] for row in rows}
    found = await load(session, coordinator_job_id)
    if found is None:
        raise NotFound(f"workflow {workflow_id_of(coordinator_job_id)}")
    fates = found.fates()
    due: dict[Fate, dict[int, str]] = {fate: {} for fate in _TO_CHANGE}
    for node in found.plan.nodes:
        if fates[node.name] in _TO_CHANGE and node.job_id in locked:
            due[fates[node.name]][locked[node.job_id]] = node.name
    if due[Fate.STOP]:
        await session.fetch(cancel_jobs(), {"row_id_array": list(due[Fate.STOP])})
    for fate, action in (
        (Fate.PROMOTE, OperatorAction.PROMOTE),
        (Fate.REVIVE, OperatorAction.RETRY),
    ):
        # One whose unique key another job holds stays as it is, and is tried again.
        if due[fate]:
            revival = await make_available(session, action, list(due[fate]))
            queues.update(revival.queues.values())
            if fate is Fate.REVIVE:
                revived = {due[fate][row_id] for row_id in revival.queues}
                found.record.stopped = [n for n in found.record.stopped if n not in revived]
    found.record.stopped = [*found.record.stopped, *due[Fate.STOP].values()]
    await _remember(session, found)
    return fates


async def _remember(session: Session, found: LoadedWorkflow) -> None:
    found.record.completed = found.completed()
    await session.fetch(
        remember(),
        {
            "coordinator_row_id": found.coordinator["row_id"],
            "record": _encode(record_fields(found.record)).decode(),
        },
    )


def _to_retry(found: LoadedWorkflow, names: Sequence[str] | None) -> list[str]:
    """The jobs of the failed nodes that are wanted, all of which can be retried."""
    job_ids = {node.name: node.job_id for node in found.plan.nodes}
    failed = failures(found.fates())
    for name in names or ():
        if name not in job_ids:
            raise NotFound(f"node {name}")
        if name not in failed:
            raise InvalidRequest(f"node {name} has not failed")
    wanted = failed if names is None else tuple(dict.fromkeys(names))
    if not wanted:
        raise InvalidRequest(f"workflow {found.plan.workflow_id} has no failed node")
    for name in wanted:
        if (reason := objection(found.states.get(job_ids[name], MISSING))) is not None:
            raise InvalidRequest(f"node {name} {reason}")
    return [job_ids[name] for name in wanted]
