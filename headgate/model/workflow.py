"""A workflow: jobs that wait for each other, and the job that lets them go.

The coordinator is an ordinary job whose payload is the plan. Its checkpoint keeps what the rows of
the nodes cannot say any more: which of them were seen completed, and which were stopped because
something before them failed.
"""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

COORDINATOR_KIND: Final = "headgate:workflow"
COORDINATOR_QUEUE: Final = "headgate-workflow"
DEFAULT_RETENTION_MS: Final = 7 * 24 * 3_600_000
DEFAULT_POLL_MS: Final = 1_000
WORKFLOW_HEADER: Final = "headgate-workflow"
"""The header of a node that names its coordinator: whoever ends the node knows what to look at."""
MISSING: Final = "missing"
"""Stands for the state of a node whose job is gone."""

_COORDINATOR: Final = ":coordinator"


class PlannedNode(msgspec.Struct, frozen=True):
    """One job of a plan; `deps` are the names of the nodes that must be completed before it."""

    name: str
    job_id: str
    deps: list[str] = []


class WorkflowPlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """The payload of a coordinator. It never changes."""

    workflow_id: str
    nodes: list[PlannedNode]
    poll_ms: int = DEFAULT_POLL_MS


class WorkflowRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a coordinator remembers, as it stands in its checkpoint.

    `completed` and `stopped` are names of nodes. `revision` grows with every change by an operator,
    `generation` with every retry.
    """

    completed: list[str] = []
    stopped: list[str] = []
    revision: int = 1
    generation: int = 0


class WorkflowSummary(msgspec.Struct, kw_only=True):
    """A workflow in a list. `state` and the times are those of its coordinator."""

    workflow_id: str
    coordinator_job_id: str
    state: str
    enqueued_at_ms: int
    scheduled_at_ms: int
    finalized_at_ms: int | msgspec.UnsetType = msgspec.UNSET


class WorkflowPage(msgspec.Struct, kw_only=True):
    """Newest first. A `next_cursor` with a short page means: searched this far, continue."""

    workflows: list[WorkflowSummary]
    next_cursor: str | None


class WorkflowNode(msgspec.Struct, kw_only=True):
    """A node and the job behind it, as far as there is one."""

    name: str
    job_id: str
    kind: Annotated[str, Meta(description="Always `task`: a node is a job.")] = "task"
    job_kind: str | None
    state: Annotated[str, Meta(description="That of the job, or `missing`.")]
    failed: Annotated[
        bool, Meta(description="It ended without success, and not because of another node.")
    ]
    stopped: Annotated[bool, Meta(description="It was cancelled because a node before it failed.")]
    dependencies: list[str]
    dependents: list[str]
    attempt: int | None
    claimed_at_ms: int | None
    finalized_at_ms: int | None


class WorkflowSnapshot(WorkflowSummary, kw_only=True):
    """A workflow with its nodes, each after those it depends on."""

    revision: Annotated[int, Meta(description="Grows with every retry and cancellation.")]
    generation: Annotated[int, Meta(description="How often failed nodes were retried.")]
    failed: Annotated[bool, Meta(description="Whether a node has failed.")]
    failed_subgraph_retry: Annotated[
        bool, Meta(description="Whether the failed nodes can be retried as they are now.")
    ]
    nodes: list[WorkflowNode]


class WorkflowAdvance(msgspec.Struct, frozen=True):
    """Where a workflow stands: `live` while something may still happen by itself, and the names of
    the nodes that failed.
    """

    live: bool
    failed: tuple[str, ...]


def coordinator_id(workflow_id: str) -> str:
    """The id of the job that coordinates the workflow."""
    return workflow_id + _COORDINATOR


def workflow_id_of(job_id: str) -> str:
    """The workflow that the coordinator `job_id` belongs to, without a look at its plan."""
    return job_id.removesuffix(_COORDINATOR)


_decode_plan: Final = msgspec.json.Decoder(WorkflowPlan).decode
_encode: Final = msgspec.json.Encoder().encode


def encode_plan(plan: WorkflowPlan) -> bytes:
    """The payload of the coordinator of `plan`."""
    return _encode(plan)


def read_plan(payload: bytes) -> WorkflowPlan | None:
    """The plan in the payload of a coordinator; None when somebody put something else there."""
    try:
        return _decode_plan(payload)
    except msgspec.MsgspecError:
        return None


def read_record(checkpoint: str) -> WorkflowRecord:
    """What the checkpoint of a coordinator says."""
    return msgspec.json.decode(checkpoint, type=WorkflowRecord)


def record_fields(record: WorkflowRecord) -> dict[str, Any]:
    """The record as the checkpoint keeps it, every field there to replace the one before."""
    return {name: getattr(record, name) for name in record.__struct_fields__}
