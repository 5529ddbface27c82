"""Putting a workflow together: jobs, and which of them wait for which."""

from collections.abc import Iterable
from datetime import timedelta
from typing import TypeAlias

import msgspec
from msgspec import structs

from headgate.client.durations import duration_ms
from headgate.model.envelope import Envelope
from headgate.model.errors import InvalidRequest
from headgate.model.limits import MAX_BATCH_JOBS, check_name
from headgate.model.workflow import (
    COORDINATOR_KIND,
    COORDINATOR_QUEUE,
    DEFAULT_POLL_MS,
    DEFAULT_RETENTION_MS,
    WORKFLOW_HEADER,
    PlannedNode,
    WorkflowPlan,
    coordinator_id,
    encode_plan,
)
from headgate.model.workflow_fates import in_order

MAX_NODES = MAX_BATCH_JOBS - 1


class Node(msgspec.Struct, frozen=True):
    """A job of a workflow, to be named by those that come after it."""

    name: str
    job_id: str


After: TypeAlias = Node | str | Iterable[Node | str]


class Workflow:
    """Jobs that are enqueued together and run in order, each once all before it are completed.

        workflow = Workflow("import-7")
        files = [workflow.add(fetch.job(url), name=url) for url in urls]
        workflow.add(publish.job(), name="publish", after=files)
        await app.enqueue_workflow(workflow)

    A job that fails for good stops those that depend on it, directly or not, and no others. The
    workflow has succeeded when every job of it has; otherwise its coordinator ends archived, and
    the part that failed can be retried.
    """

    def __init__(
        self,
        id: str,
        *,
        retention: timedelta | None = None,
        retention_ms: int | None = None,
        poll_interval: timedelta | None = None,
        poll_interval_ms: int | None = None,
        coordinator_queue: str = COORDINATOR_QUEUE,
    ) -> None:
        """`retention` is how long what has ended stays to be seen, seven days by default;
        `poll_interval` is how soon the coordinator looks again, one second by default. A queue of
        its own must be served by the workers of an application with workflows. Raises
        `InvalidRequest`.
        """
        if not id:
            raise InvalidRequest("workflow id must not be empty")
        check_name("workflow id", coordinator_id(id))
        self.id = id
        kept_ms = duration_ms("workflow retention", retention, retention_ms)
        poll_ms = duration_ms("workflow poll interval", poll_interval, poll_interval_ms)
        self._retention_ms = DEFAULT_RETENTION_MS if kept_ms is None else kept_ms
        self._poll_ms = DEFAULT_POLL_MS if poll_ms is None else poll_ms
        self._queue = coordinator_queue
        self._jobs: dict[str, Envelope] = {}
        self._nodes: dict[str, PlannedNode] = {}

    def add(self, job: Envelope, *, name: str | None = None, after: After = ()) -> Node:
        """Adds a job, made by `Task.job`, which runs once everything in `after` is completed.

        `name` is the job's kind unless given; `after` has nodes or their names, which may be added
        later. Without an id of its own the job gets `{workflow}:{name}`, and without a retention
        that of the workflow. Raises `InvalidRequest` for a name that is taken, for a dependency
        that stands twice, and for a job that says itself when it runs.
        """
        name = job.kind if name is None else name
        if not name:
            raise InvalidRequest("node name must not be empty")
        if name in self._nodes:
            raise InvalidRequest(f"node name `{name}` is used twice")
        if job.scheduled_at_ms or job.delay_ms:
            raise InvalidRequest(f"node `{name}`: the workflow decides when it runs")
        deps = _names(after)
        if len(set(deps)) < len(deps):
            raise InvalidRequest(f"node `{name}` names a dependency twice")
        job_id = job.id or f"{self.id}:{name}"
        if job_id == coordinator_id(self.id):
            raise InvalidRequest(f"node `{name}` would have the id of the coordinator")
        self._jobs[name] = structs.replace(
            job,
            id=job_id,
            pending=True,
            retention_ms=job.retention_ms or self._retention_ms,
            headers={**job.headers, WORKFLOW_HEADER: coordinator_id(self.id)},
        )
        self._nodes[name] = PlannedNode(name, job_id, deps)
        return Node(name, job_id)

    def jobs(self) -> list[Envelope]:
        """The coordinator, and then the jobs in an order in which they may run.

        Raises `InvalidRequest` for no node or more than 999, for a dependency that was never added,
        and for a circle, naming it.
        """
        if not self._nodes:
            raise InvalidRequest("workflow must contain at least one node")
        if len(self._nodes) > MAX_NODES:
            raise InvalidRequest(f"workflow must contain at most {MAX_NODES} nodes")
        for node in self._nodes.values():
            for dep in node.deps:
                if dep not in self._nodes:
                    raise InvalidRequest(f"node `{node.name}` depends on unknown node `{dep}`")
        ordered = in_order(self._nodes.values())
        coordinator = Envelope(
            id=coordinator_id(self.id),
            kind=COORDINATOR_KIND,
            payload=encode_plan(WorkflowPlan(self.id, ordered, self._poll_ms)),
            queue=self._queue,
            retention_ms=self._retention_ms,
        )
        return [coordinator, *(self._jobs[node.name] for node in ordered)]


def _names(after: After) -> list[str]:
    if isinstance(after, Node | str):
        after = (after,)
    return [each.name if isinstance(each, Node) else each for each in after]
