"""Workflows as they are read: a coordinator, its plan and record, and the jobs of its nodes."""

from typing import Any

import msgspec

from headgate.model.lifecycle import State
from headgate.model.workflow import (
    COORDINATOR_KIND,
    MISSING,
    WorkflowNode,
    WorkflowPlan,
    WorkflowRecord,
    WorkflowSnapshot,
    read_plan,
    read_record,
    workflow_id_of,
)
from headgate.model.workflow_fates import RETRIABLE, Fate, in_order, judge
from headgate.queries.workflows import node_jobs, read_coordinator
from headgate.store.database import Executor, Row


class LoadedWorkflow(msgspec.Struct):
    """A workflow as one look finds it: its coordinator, and the jobs of its nodes by id."""

    coordinator: Row
    plan: WorkflowPlan
    record: WorkflowRecord
    jobs: dict[str, Row]

    @property
    def states(self) -> dict[str, str]:
        return {job_id: row["state"] for job_id, row in self.jobs.items()}

    def fates(self) -> dict[str, Fate]:
        return judge(self.plan, self.states, self.record)

    def completed(self) -> list[str]:
        """The nodes known to be completed, also those whose jobs are gone by now."""
        fates = self.fates()
        return [name for name, fate in fates.items() if fate is Fate.DONE]


async def load(database: Executor, coordinator_job_id: str) -> LoadedWorkflow | None:
    """What there is now of the workflow of this coordinator; None when it is none."""
    rows = await database.fetch(read_coordinator(), {"coordinator_job_id": coordinator_job_id})
    if not rows or rows[0]["kind"] != COORDINATOR_KIND:
        return None
    plan = read_plan(rows[0]["payload"])
    if plan is None:
        return None
    jobs = await database.fetch(node_jobs(), {"job_id_array": [node.job_id for node in plan.nodes]})
    return LoadedWorkflow(
        coordinator=rows[0],
        plan=plan,
        record=read_record(rows[0]["checkpoint"]),
        jobs={row["job_id"]: row for row in jobs},
    )


def objection(state: str) -> str | None:
    """Why a node that failed cannot be retried from this state; None when it can."""
    if state in RETRIABLE:
        return None
    if state == State.QUARANTINED:
        return "is quarantined; release its fingerprint first"
    return "is gone and cannot be retried"


def summary(job_id: str, row: Row) -> dict[str, Any]:
    """What a list shows of the workflow whose coordinator is `job_id`."""
    finalized = row["finalized_at_ms"]
    return {
        "workflow_id": workflow_id_of(job_id),
        "coordinator_job_id": job_id,
        "state": row["state"],
        "enqueued_at_ms": row["enqueued_at_ms"],
        "scheduled_at_ms": row["scheduled_at_ms"],
        "finalized_at_ms": msgspec.UNSET if finalized is None else finalized,
    }


def snapshot(found: LoadedWorkflow) -> WorkflowSnapshot:
    """All that is shown of a workflow."""
    fates = found.fates()
    dependents: dict[str, list[str]] = {name: [] for name in fates}
    for node in found.plan.nodes:
        for name in node.deps:
            dependents.setdefault(name, []).append(node.name)
    nodes = []
    for node in in_order(found.plan.nodes):
        row = found.jobs.get(node.job_id)
        fate = fates[node.name]
        gone = State.COMPLETED.value if fate is Fate.DONE else MISSING
        nodes.append(
            WorkflowNode(
                name=node.name,
                job_id=node.job_id,
                job_kind=None if row is None else row["kind"],
                state=gone if row is None else row["state"],
                failed=fate is Fate.FAILED,
                stopped=fate is Fate.DOOMED,
                dependencies=node.deps,
                dependents=dependents[node.name],
                attempt=None if row is None else row["attempt"],
                claimed_at_ms=None if row is None else row["claimed_at_ms"],
                finalized_at_ms=None if row is None else row["finalized_at_ms"],
            )
        )
    failed = [node for node in nodes if node.failed]
    return WorkflowSnapshot(
        **summary(found.coordinator["job_id"], found.coordinator),
        revision=found.record.revision,
        generation=found.record.generation,
        failed=bool(failed),
        failed_subgraph_retry=bool(failed) and all(objection(n.state) is None for n in failed),
        nodes=nodes,
    )
