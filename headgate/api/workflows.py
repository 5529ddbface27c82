"""Workflows: what waits for what, how far each has come, and a second try for what failed."""

from typing import Annotated, ClassVar, Final

import msgspec
from msgspec import Meta
from starlette.responses import Response

from headgate.api.errors import DuplicateBody, absent
from headgate.api.jobs import ROW_ID_CURSOR, parse_row_id
from headgate.api.operations import Answer, operation, refused
from headgate.api.requests import ApiRequest
from headgate.api.responses import empty_response, json_response
from headgate.api.wire import U32, Count
from headgate.model.access import Role
from headgate.model.page import MAX_PAGE
from headgate.model.workflow import (
    WorkflowNode,
    WorkflowPage,
    WorkflowSnapshot,
    WorkflowSummary,
)

_PAGE: Final = 50

_SUMMARY: Final = WorkflowSummary(
    workflow_id="import-7",
    coordinator_job_id="import-7:coordinator",
    state="scheduled",
    enqueued_at_ms=1_767_225_600_000,
    scheduled_at_ms=1_767_225_616_000,
)
_SNAPSHOT: Final = WorkflowSnapshot(
    workflow_id="import-7",
    coordinator_job_id="import-7:coordinator",
    state="archived",
    enqueued_at_ms=1_767_225_600_000,
    scheduled_at_ms=1_767_225_616_000,
    finalized_at_ms=1_767_225_617_000,
    revision=1,
    generation=0,
    failed=True,
    failed_subgraph_retry=True,
    nodes=[
        WorkflowNode(
            name="extract",
            job_id="import-7:extract",
            job_kind="import:extract",
            state="archived",
            failed=True,
            stopped=False,
            dependencies=[],
            dependents=["load"],
            attempt=25,
            claimed_at_ms=1_767_225_615_000,
            finalized_at_ms=1_767_225_615_400,
        ),
        WorkflowNode(
            name="load",
            job_id="import-7:load",
            job_kind="import:load",
            state="cancelled",
            failed=False,
            stopped=True,
            dependencies=["extract"],
            dependents=[],
            attempt=0,
            claimed_at_ms=None,
            finalized_at_ms=1_767_225_617_000,
        ),
    ],
)

_DONE: Final = Answer(204, "Done.")
_NOT_FOUND: Final = refused(
    404, "No workflow has this id, or no node has this name.", "not found: workflow import-7"
)


class ListWorkflows(msgspec.Struct, kw_only=True, frozen=True):
    cursor: ROW_ID_CURSOR | None = None
    limit: Annotated[
        U32,
        Meta(description=f"Workflows on a page: 1 to {MAX_PAGE}, what lies outside is bounded."),
    ] = _PAGE


class RetryWorkflow(msgspec.Struct, kw_only=True, frozen=True):
    """Which failures are to be tried again."""

    example: ClassVar = {"expected_revision": 1}

    expected_revision: Annotated[
        Count, Meta(description="The `revision` that was seen: two retries at a time are one.")
    ]
    nodes: Annotated[
        list[str] | None, Meta(description="Names of failed nodes; all of them when absent.")
    ] = None


@operation(
    "GET",
    "/workflows",
    Answer(
        200,
        "A page of workflows, newest first, and where the next one begins.",
        WorkflowPage,
        examples={"page": WorkflowPage(workflows=[_SUMMARY], next_cursor="4711")},
        links={"first": ("read_workflow", {"id": "$response.body#/workflows/0/workflow_id"})},
    ),
)
async def list_workflows(request: ApiRequest, query: ListWorkflows) -> Response:
    """List workflows.

    Newest first. `state` is that of the coordinator: completed when all went well, archived when
    something failed. A page may be short, even empty, with `next_cursor` set: continue.
    """
    page = await request.store.workflows.page(
        limit=max(1, min(query.limit, MAX_PAGE)), cursor=parse_row_id(query.cursor)
    )
    return json_response(page)


@operation(
    "GET",
    "/workflows/{id}",
    Answer(
        200,
        "The workflow.",
        WorkflowSnapshot,
        examples={"workflow": _SNAPSHOT},
        links={
            "retry": ("retry_workflow", {"id": "$response.body#/workflow_id"}),
            "cancel": ("cancel_workflow", {"id": "$response.body#/workflow_id"}),
        },
    ),
    refused(404, "No workflow has this id.", "no such workflow"),
)
async def read_workflow(request: ApiRequest, id: str) -> Response:
    """Read a workflow with all its nodes, each after those it depends on.

    A node whose job is gone is `missing`, unless it was seen completed.
    """
    workflow = await request.store.workflows.workflow(id)
    if workflow is None:
        raise absent("no such workflow")
    return json_response(workflow)


@operation(
    "POST",
    "/workflows/{id}/retry",
    _DONE,
    refused(
        400,
        "There is nothing to retry.",
        "workflow import-7 has no failed node",
        "node extract is gone and cannot be retried",
    ),
    _NOT_FOUND,
    refused(
        409,
        "The workflow was changed meanwhile.",
        "revision conflict: workflow import-7 has revision 2, not 1",
    ),
    Answer(
        409,
        "Another job has the unique key of a node by now.",
        DuplicateBody,
        examples={
            "taken": DuplicateBody(
                error="duplicate unique key", existing_id="mail-18", replaced=False
            )
        },
    ),
    role=Role.OPERATOR,
)
async def retry_workflow(request: ApiRequest, id: str, body: RetryWorkflow) -> Response:
    """Try what failed again.

    The jobs of the failed nodes become available, and those that were stopped because of them
    follow in their turn. What was completed is not run again.
    """
    await request.store.workflows.retry(
        id, expected_revision=body.expected_revision, nodes=body.nodes
    )
    return empty_response()


@operation(
    "POST",
    "/workflows/{id}/cancel",
    _DONE,
    refused(400, "All of it has ended.", "workflow import-7 has ended"),
    _NOT_FOUND,
    role=Role.OPERATOR,
)
async def cancel_workflow(request: ApiRequest, id: str) -> Response:
    """Cancel a workflow: its coordinator and every node that has not ended."""
    await request.store.workflows.cancel(id)
    return empty_response()
